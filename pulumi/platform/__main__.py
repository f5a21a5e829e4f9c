"""The Helm releases of one site; what they are given is in src/strata/platform, the charts in helm/."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as kubernetes

from strata.platform import cluster_base, ingress, ml_hub, releases, tenant, token_issuer
from strata.pulumi_program import required_cluster, required_images, shown_plainly, stack_site
from strata.site.outputs import CloudOutputs
from strata.site.paths import SitePaths
from strata.site.secrets import SecretStore

site, site_file = stack_site()
cluster = required_cluster(site)
paths = SitePaths(site.name)
images = required_images(site)
secrets = SecretStore.open(site.name, site.secrets)
services = site.platform.services

provider = kubernetes.Provider("cluster", kubeconfig=str(paths.kubeconfig))
in_cluster = pulumi.ResourceOptions(provider=provider)

base = cluster_base.ClusterBase(
    "cluster-base",
    cluster_base.ClusterBaseArgs(shown_plainly(cluster_base.values)(site, cluster, images)),
    in_cluster,
)
ingress.IngressController(
    "traefik",
    ingress.IngressControllerArgs(shown_plainly(ingress.values)(site, CloudOutputs.load(paths), images)),
    in_cluster,
)
tenants = [
    tenant.Tenant(releases.tenant_release(t), tenant.TenantArgs(tenant.values(site, t)), in_cluster)
    for t in site.platform.tenants
]
if services.token_issuer:
    token_issuer.TokenIssuer(
        "token-issuer",
        token_issuer.TokenIssuerArgs(shown_plainly(token_issuer.values)(site, services.token_issuer, images, secrets)),
        in_cluster,
    )
if services.ml_hub and services.issuer:
    ml_hub.MlHub(
        "ml-hub",
        ml_hub.MlHubArgs(
            shown_plainly(ml_hub.values)(
                site,
                services.ml_hub,
                services.issuer,
                site_file=site_file,
                outputs=CloudOutputs.load(paths),
                images=images,
                secrets=secrets,
            )
        ),
        in_cluster,
    )

pulumi.export("releases", releases.release_names(site))
