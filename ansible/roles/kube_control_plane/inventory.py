"""Variables of the role kube_control_plane."""

from __future__ import annotations

from strata.catalogue.cluster_login import CLIENT, PREFIX, ClusterLogin, cluster_login
from strata.catalogue.issuer import GROUPS_CLAIM, USERNAME_CLAIM
from strata.inventory import Template
from strata.inventory.kubernetes import cluster_of, endpoint, image_repository
from strata.inventory.port_numbers import DATASTORE
from strata.inventory.topology import certificate, service_names
from strata.models.site import Site
from strata.site.host_list import address_of, api_host, balanced_api, hosts_with
from strata.site.outputs import CloudOutputs
from strata.site.paths import SitePaths
from strata.toolchain import bin_directory, load_versions

CLIENT_CERTIFICATE = "kube-apiserver-datastore"
"""Name in the secret store of the API server's certificate for kine."""


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """Group variables of `kube_control_plane`.

    Args:
        site: the model.
        outputs: addresses of the instances; None before the cloud layer ran.
    """
    cluster, versions = cluster_of(site), load_versions().tools
    datastore: dict[str, object] = {}
    if cluster.datastore == "kine":
        client = certificate(CLIENT_CERTIFICATE, [CLIENT_CERTIFICATE], []).expression.strip("{} ")
        datastore = {
            "endpoints": [endpoint(host.address, DATASTORE) for host in hosts_with("kine", site, outputs)],
            **{part: Template(f"{{{{ ({client}).{part} }}}}") for part in ("ca", "certificate", "private_key")},
        }
    api = api_host(site, outputs)
    return {
        "kube_control_plane_kubectl": str(bin_directory() / "kubectl"),
        "kube_control_plane_version": versions["kubeadm"].version,
        "kube_control_plane_cluster_name": cluster.name,
        "kube_control_plane_image_repository": image_repository(site, outputs),
        "kube_control_plane_coredns_tag": f"v{versions['coredns'].version}",
        "kube_control_plane_pod_network": str(cluster.pod_network),
        "kube_control_plane_service_network": str(cluster.service_network),
        "kube_control_plane_datastore": datastore,
        "kube_control_plane_kubeconfig": str(SitePaths(site.name).kubeconfig),
        "kube_control_plane_issuer": _issuer(site, outputs),
        "kube_control_plane_names": service_names(site, outputs),
        **({"kube_control_plane_api_address": api.address} if api and balanced_api(site) else {}),
        **({"kube_control_plane_external_address": api.outside} if api and api.outside != api.address else {}),
    }


def _issuer(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """Whose tokens the API server accepts; empty for a site without an issuer."""
    login = cluster_login(site)
    if login is None:
        return {}
    address = address_of("load_balancer", site, outputs) if login.host.endswith(f".{site.domain}") else None
    return {
        "url": login.url,
        "ca": _ca(login),
        "audience": CLIENT,
        "username_claim": USERNAME_CLAIM,
        "groups_claim": GROUPS_CLAIM,
        "prefix": PREFIX,
        "host_aliases": [{"ip": address, "hostnames": [login.host]}] if address else [],
    }


def _ca(login: ClusterLogin) -> object:
    """PEM of the CA that signs the issuer's certificate; empty for a public one."""
    if login.site_ca:
        return Template("{{ lookup('strata_ca') }}")
    if login.ca_file is None:
        return ""
    return Template(f"{{{{ lookup('ansible.builtin.file', (strata_site_file | dirname) ~ '/' ~ {login.ca_file!r}) }}}}")
