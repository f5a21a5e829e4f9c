"""Values of zero-to-jupyterhub's chart."""

from __future__ import annotations

from pathlib import Path

from strata.catalogue.issuer import GROUPS_CLAIM, USERNAME_CLAIM, administrators_group, tenant_group
from strata.catalogue.needs.client import ClientAccess
from strata.catalogue.needs.hostname import INGRESS_CONTROLLER
from strata.catalogue.service import ServiceContext, Values, image
from strata.models.platform import Tenant
from strata.roles import port
from strata_services.jupyterhub import batch, culling, dask, datasets
from strata_services.jupyterhub.needs import (
    BATCH,
    DASK,
    DATABASE,
    HUB_PRIORITY,
    LEAVING_SERVICE,
    METRICS,
    MODELS,
    NAMESPACE,
    QUOTA,
    USER_ID,
    USER_PRIORITY,
    VERIFY_SERVICE,
    VERIFY_USER,
    accelerators,
    client,
    homes,
    hostname,
    shared_folders,
)
from strata_services.jupyterhub.network import CLOSED, address, database_rule, issuer_rules, tcp
from strata_services.jupyterhub.settings import JupyterHub, Profile

HTTPS = port("load_balancer", "https")
KUBERNETES_API = port("kube_control_plane", "kubernetes-api")
REFRESH_SECONDS = 60
"""How old a user's groups may be when the hub checks a right."""
SILENCE_SECONDS = 900
"""The same while the issuer does not respond: other services accept its tokens for as long."""
CHECK_SECONDS = 20
"""Between two questions to the issuer about a user with a running server; two answers end it."""
CA_FILES = Path("/etc/strata")
IMAGE_CA = "/etc/ssl/certs/ca-certificates.crt"
RESTRICTED: Values = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
EXTRA_CONFIG = """\
import asyncio
from strata_hub import profile_list, server_tenant
from strata_hub.api import handlers
from strata_hub.configuration import Limits
from strata_hub.datasets import Downloads
from strata_hub.free import with_free
from strata_hub.kubernetes import wait_for_kubernetes
from strata_hub.login import SiteAuthenticator
from strata_hub.metrics import serve
from strata_hub.pods import pod_hook
from strata_hub.quota import titles_of
from strata_hub.reservations import Reservations
from strata_hub.waiting import SiteSpawner
wait_for_kubernetes()
sources = get_config("custom.datasetSources")
profiles, access = get_config("singleuser.profileList"), get_config("custom.profileAccess")
tenants, accelerators = get_config("custom.tenants"), get_config("custom.accelerators")
limits = {tenant["name"]: Limits(**tenant["limits"]) for tenant in tenants}
c.KubeSpawner.profile_list = with_free(profile_list(profiles, access), accelerators)
c.KubeSpawner.modify_pod_hook = pod_hook(
    tenants, profiles, access, limits, accelerators, get_config("custom.sharedFolders"),
    Downloads(**get_config("custom.downloads")), sources,
)
c.JupyterHub.authenticator_class = SiteAuthenticator
c.SiteAuthenticator.update(get_config("custom.login"))
c.JupyterHub.spawner_class = SiteSpawner
SiteSpawner.reservations = Reservations(get_config("custom.reservation"), titles_of(accelerators), accelerators)
c.SiteSpawner.update(
    titles=titles_of(accelerators), idle_seconds=get_config("cull.timeout"),
    maximum_servers=get_config("custom.maximumServers"),
)
c.JupyterHub.extra_handlers = handlers(limits, sources)
c.BackgroundTasks.background = [
    lambda: serve(get_config("custom.metricsPort")),
    lambda: asyncio.ensure_future(SiteSpawner.reservations.keep(list(limits), get_config("custom.namespace"))),
]
"""
"""Python at the end of the hub's configuration; the module is in the image."""


def values(context: ServiceContext[JupyterHub]) -> Values:
    """Values of zero-to-jupyterhub's chart.

    Raises:
        UserError: no PostgreSQL server is deployed, an image is missing, or the issuer's URLs are unknown.
    """
    hub = context.settings
    host = context.provide(hostname(hub))
    return {
        "custom": {
            "profileAccess": _access(hub),
            # a list, as Helm sorts the keys of a map
            "tenants": [
                {"name": t.name, "group": tenant_group(t.name), "limits": _limits(hub, t)}
                for t in context.site.platform.tenants
            ],
            "accelerators": _accelerators(context),
            "reservation": context.provide(QUOTA),
            "namespace": NAMESPACE.name,
            "metricsPort": METRICS.port,
            # not the chart's limit, which refuses servers
            "maximumServers": hub.maximum_servers or 0,
            "sharedFolders": _shared_folders(context),
            "downloads": datasets.downloads(context),
            "login": {
                "silence_seconds": SILENCE_SECONDS,
                "check_seconds": CHECK_SECONDS,
                "unknown_users": [VERIFY_USER],
                "tenants": {tenant.name: tenant_group(tenant.name) for tenant in context.site.platform.tenants},
            },
            "datasetSources": datasets.sources(context),
            **batch.custom(context.provide(BATCH), context.site),
        },
        "hub": _hub(context, f"https://{host['host']}"),
        "proxy": _proxy(context),
        "singleuser": _singleuser(context),
        # Kubernetes' scheduler places users' pods and queues them
        "scheduling": {
            "userScheduler": {"enabled": False},
            "userPlaceholder": {"enabled": False},
            "corePods": {"nodeAffinity": {"matchNodePurpose": "ignore"}},
            "userPods": {"nodeAffinity": {"matchNodePurpose": "ignore"}},
        },
        "prePuller": {
            "extraTolerations": _tolerations(context),
            "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}, "limits": {"memory": "64Mi"}},
            "containerSecurityContext": {"readOnlyRootFilesystem": True},
            "hook": {"enabled": False},
            "continuous": {"enabled": True},
            "pause": {"image": _image(image(context.pushed, "pause"))},
        },
        "ingress": {"enabled": True, "ingressClassName": host["className"], "hosts": [host["host"]]},
        "cull": culling.values(hub.culling),
    }


def _image(reference: Values) -> dict[str, str]:
    """The chart has no key for the digest, and writes a colon between name and tag."""
    algorithm, _, digest = reference["digest"].partition(":")
    return {"name": f"{reference['repository']}@{algorithm}", "tag": digest}


def _hub(context: ServiceContext[JupyterHub], url: str) -> Values:
    hub = context.settings
    database = context.provide(DATABASE)
    access = context.provide(client(hub))
    metrics = context.provide(METRICS)
    queue, gateway = context.provide(BATCH), context.provide(DASK)
    address = f"postgresql+psycopg2://{database.name}@{database.host}:{database.port}/{database.name}"
    tls = f"sslmode=verify-full&sslrootcert={_ca('database')}"
    files = {"database-ca.pem": database.ca} | ({"issuer-ca.pem": access.ca} if access.ca is not None else {})
    return {
        "image": _image(context.images["hub"]),
        "existingSecret": context.service.secret_name,
        "config": {
            "JupyterHub": {
                "authenticator_class": "generic-oauth",
                "admin_access": False,
                "template_vars": {"announcement": culling.announcement(hub.culling)},
                "custom_scopes": {
                    scope: {"description": f"{what} of tenant {tenant.name}"}
                    for tenant in context.site.platform.tenants
                    for scope, what in (
                        (_scope(tenant), "Configure the servers"),
                        (_datasets_scope(tenant), "Read the datasets"),
                    )
                },
            },
            "Authenticator": {
                "auto_login": True,
                "admin_users": list(hub.administrators),
                # encrypted in the database, with the user's tokens of the issuer
                "enable_auth_state": True,
                "auth_refresh_age": REFRESH_SECONDS,
                "refresh_pre_spawn": True,
            },
            "GenericOAuthenticator": _login(context, access, url),
            "KubeSpawner": {
                # a server may need a minute to respond on a busy node
                "http_timeout": 120,
                # nothing is one user's: all homes are one volume
                "delete_pvc": False,
                "priority_class_name": context.provide(USER_PRIORITY),
                "pod_security_context": {"runAsUser": USER_ID, "runAsGroup": USER_ID},
                "container_security_context": RESTRICTED,
            },
        },
        "db": {"type": "postgres", "upgrade": True, "url": f"{address}?{tls}"},
        # 0 means no limit: pods wait for free resources in the queue of Kubernetes' scheduler, and nothing is refused
        "concurrentSpawnLimit": 0,
        # slow starts are not a reason for the hub to end itself
        "consecutiveFailureLimit": 0,
        "extraConfig": {"strata": EXTRA_CONFIG + culling.CONFIG + (batch.CONFIG if queue else "")},
        "extraEnv": {
            "PGPASSWORD": {"valueFrom": {"secretKeyRef": database.password.value}},
            "OAUTH_CLIENT_SECRET": {"valueFrom": {"secretKeyRef": access.secret.value}},
            **batch.hub_environment(queue),
        },
        "extraFiles": {n: {"mountPath": str(CA_FILES / n), "stringData": text} for n, text in files.items()},
        "extraVolumes": [{"name": "tmp", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108  # of the container
        "services": {VERIFY_SERVICE: {}, LEAVING_SERVICE: {}, **dask.services(gateway)},
        "loadRoles": {
            **dask.roles(gateway),
            LEAVING_SERVICE: {"services": [LEAVING_SERVICE], "scopes": ["admin:users", "admin:servers"]},
            VERIFY_SERVICE: {"services": [VERIFY_SERVICE], "scopes": _verify_scopes()},
            **{
                f"configure-{tenant.name}": {"groups": [administrators_group(tenant.name)], "scopes": [_scope(tenant)]}
                for tenant in context.site.platform.tenants
            },
            **{
                f"datasets-{tenant.name}": {"groups": [tenant_group(tenant.name)], "scopes": [_datasets_scope(tenant)]}
                for tenant in context.site.platform.tenants
            },
        },
        "resources": {"requests": {"cpu": "50m", "memory": "192Mi"}, "limits": {"memory": "1Gi"}},
        "containerSecurityContext": {"readOnlyRootFilesystem": True},
        "extraPodSpec": {"priorityClassName": context.provide(HUB_PRIORITY)},
        "annotations": dict(metrics.annotations),
        "networkPolicy": {
            "ingress": [
                {"from": list(metrics.clients), "ports": [tcp(METRICS.port)]},
                *dask.hub_ingress(gateway, DASK.hub_port),
            ],
            "egressAllowRules": CLOSED,
            "egress": [
                database_rule(database),
                *issuer_rules(access),
                # Kubernetes' API: the port of its Service, and of the node behind it
                {"ports": [tcp(HTTPS), tcp(KUBERNETES_API)]},
                *batch.hub_egress(queue),
                *datasets.hub_egress(hub),
            ],
        },
    }


def _scope(tenant: Tenant) -> str:
    """Of the tenant's administrators; what their servers' tokens do not have."""
    return f"custom:tenant-configuration:{tenant.name}"


def _datasets_scope(tenant: Tenant) -> str:
    """Of the tenant's members; what their servers' tokens do not have."""
    return f"custom:tenant-datasets:{tenant.name}"


def _verify_scopes() -> list[str]:
    scopes = ("admin:users", "admin:servers", "access:servers")
    return [f"{scope}!user={VERIFY_USER}" for scope in scopes]


def _login(context: ServiceContext[JupyterHub], access: ClientAccess, url: str) -> Values:
    """Logins at the issuer; its claim `groups` becomes the user's groups, at each login and later."""
    hub = context.settings
    return {
        "client_id": access.id,
        "oauth_callback_url": f"{url}/hub/oauth_callback",
        "authorize_url": access.public.authorize,
        "token_url": access.internal.token,
        "userdata_url": access.internal.userinfo,
        "logout_redirect_url": access.public.logout,
        "http_request_kwargs": {"ca_certs": IMAGE_CA if access.ca is None else _ca("issuer")},
        "scope": ["openid", "profile", "email"],
        "username_claim": USERNAME_CLAIM,
        "manage_groups": True,
        "auth_state_groups_key": f"oauth_user.{GROUPS_CLAIM}",
        "allowed_groups": [*(tenant_group(tenant.name) for tenant in context.site.platform.tenants), *hub.groups],
        "login_service": f"the login of {context.site.name}",
    }


def _ca(name: str) -> str:
    return str(CA_FILES / f"{name}-ca.pem")


def _proxy(context: ServiceContext[JupyterHub]) -> Values:
    return {
        "service": {"type": "ClusterIP"},
        "chp": {
            "image": _image(context.images["proxy"]),
            "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
            "containerSecurityContext": {"readOnlyRootFilesystem": True},
            "extraPodSpec": {"priorityClassName": context.provide(HUB_PRIORITY)},
            "networkPolicy": {
                "ingress": [{"from": [INGRESS_CONTROLLER], "ports": [{"port": "http", "protocol": "TCP"}]}],
                "allowedIngressPorts": [],
                "egressAllowRules": CLOSED,
            },
        },
    }


def _singleuser(context: ServiceContext[JupyterHub]) -> Values:
    hub = context.settings
    queue, gateway, models = context.provide(BATCH), context.provide(DASK), context.provide(MODELS)
    environment = {
        **culling.server_environment(hub.culling),
        **({"HOME_LIMIT": str(hub.maximum_home_size.bytes)} if hub.maximum_home_size else {}),
        **batch.server_environment(queue),
        **dask.server_environment(gateway),
        **(models.environment if models else {}),
    }
    balancer = {"to": [address(context.address("load_balancer"))], "ports": [tcp(HTTPS)]}
    return {
        "image": _image(context.images["notebook"]),
        "uid": USER_ID,
        # NFS knows the owner; a group would have the kubelet change all files of a home
        "fsGid": None,
        "defaultUrl": "/lab",
        "startTimeout": hub.start_seconds,
        "storage": {
            "type": "static",
            "static": {"pvcName": context.provide(homes(hub)), "subPath": "{username}"},
            "extraVolumes": [{"name": "tmp", "emptyDir": {}}],
            "extraVolumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108  # of the container
        },
        # the NetworkPolicy closes it; iptables would need a privileged container in each user's pod
        "cloudMetadata": {"blockWithIptables": False},
        "networkPolicy": {
            "egressAllowRules": {**CLOSED, "nonPrivateIPs": True},
            "egress": [
                balancer,
                *batch.server_egress(queue),
                *datasets.server_egress(context),
                *dask.egress(gateway),
                *([models.egress] if models else []),
            ],
        },
        "profileList": [_profile(context, profile) for profile in hub.profiles],
        "extraEnv": environment,
    }


def _profile(context: ServiceContext[JupyterHub], profile: Profile) -> Values:
    guaranteed = profile.guaranteed_memory or profile.memory
    override: Values = {
        "cpu_limit": profile.cpu,
        "cpu_guarantee": profile.guaranteed_millicpus / 1000,
        "mem_limit": profile.memory.bytes,
        "mem_guarantee": guaranteed.bytes,
    }
    if need := accelerators(profile):
        cards = context.provide(need)
        override["extra_resource_limits"] = {cards.resource: str(cards.count)}
        override["node_selector"] = dict(cards.node_selector)
        override["tolerations"] = [dict(toleration) for toleration in cards.tolerations]
    return {
        "slug": profile.name,
        "display_name": profile.title or profile.name,
        "description": f"{profile.description} {_facts(context, profile)}".strip(),
        "kubespawner_override": override,
    }


def _facts(context: ServiceContext[JupyterHub], profile: Profile) -> str:
    """What a server of the profile has; the hub adds how many of its accelerators are free."""
    cards = [f"{count} × {kind}" for kind, count in profile.accelerators.items()]
    parts = [f"{profile.cpu} CPU{'s' if profile.cpu > 1 else ''}", f"{profile.memory} of memory", *cards]
    return f"{', '.join(parts)}; image {context.images['notebook']['repository'].rpartition('/')[2]}."


def _limits(hub: JupyterHub, tenant: Tenant) -> Values:
    """The most that the tenant's administrators may configure for one server: its quota, of accelerators those kinds
    that the site has profiles for."""
    kinds = {kind for profile in hub.profiles for kind in profile.accelerators}
    return {
        "cpu": tenant.quota.cpu,
        "memory": tenant.quota.memory.bytes,
        "accelerators": {kind: count for kind, count in tenant.quota.accelerators.items() if kind in kinds},
        "images": list(hub.images),
    }


def _accelerators(context: ServiceContext[JupyterHub]) -> Values:
    """How pods get each kind that the site has profiles for."""
    by_kind: Values = {}
    for need in filter(None, map(accelerators, context.settings.profiles)):
        cards = context.provide(need)
        by_kind[str(need.kind)] = {
            "resource": cards.resource,
            "nodeSelector": dict(cards.node_selector),
            "tolerations": [dict(toleration) for toleration in cards.tolerations],
            "countedAs": cards.counted_as,
        }
    return by_kind


def _shared_folders(context: ServiceContext[JupyterHub]) -> Values:
    """By tenant. The user of the checks, who has no tenant, uses that of the first."""
    need, tenants = shared_folders(context.settings), context.site.platform.tenants
    if need is None or not tenants:
        return {"folders": {}, "users": {}}
    claims = context.provide(need)
    folders = {t.name: {"claim": claims[t.name], "group": t.group_id} for t in tenants}
    return {"folders": folders, "users": {VERIFY_USER: tenants[0].name}}


def _access(hub: JupyterHub) -> Values:
    """Who may start each profile that is not open to all; the checks may start any."""
    return {
        profile.name: {
            "users": [*profile.users, VERIFY_USER],
            "groups": [*(tenant_group(tenant) for tenant in profile.tenants), *profile.groups],
        }
        for profile in hub.profiles
        if profile.restricted
    }


def _tolerations(context: ServiceContext[JupyterHub]) -> list[Values]:
    """Of the nodes of all profiles, so that each has the image."""
    needed = [need for need in map(accelerators, context.settings.profiles) if need is not None]
    tolerations = [dict(toleration) for need in needed for toleration in context.provide(need).tolerations]
    return [toleration for index, toleration in enumerate(tolerations) if toleration not in tolerations[:index]]
