"""Values of zero-to-jupyterhub's chart."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

from strata.catalogue.issuer import GROUPS_CLAIM, USERNAME_CLAIM, administrators_group, tenant_group
from strata.catalogue.needs.base import pods_peer
from strata.catalogue.needs.client import ClientAccess
from strata.catalogue.needs.database import DatabaseAccess
from strata.catalogue.needs.hostname import INGRESS_CONTROLLER
from strata.catalogue.service import ServiceContext, Values, image
from strata.models.platform import Tenant
from strata.roles import port
from strata_services.jupyterhub import batch, culling
from strata_services.jupyterhub.needs import (
    BATCH,
    DATABASE,
    HUB_PRIORITY,
    METRICS,
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
from strata_services.jupyterhub.settings import JupyterHub, Profile

HTTPS = port("load_balancer", "https")
KUBERNETES_API = port("kube_control_plane", "kubernetes-api")
CA_FILES = Path("/etc/strata")
IMAGE_CA = "/etc/ssl/certs/ca-certificates.crt"
RESTRICTED: Values = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CLOSED: Values = {
    "cloudMetadataServer": False,
    "dnsPortsCloudMetadataServer": False,
    "dnsPortsKubeSystemNamespace": True,
    "dnsPortsPrivateIPs": False,
    "nonPrivateIPs": False,
    "privateIPs": False,
}
"""Of a NetworkPolicy: DNS, and what its rules name."""
EXTRA_CONFIG = """\
from strata_hub import profile_list, server_tenant
from strata_hub.api import handlers
from strata_hub.configuration import Limits
from strata_hub.datasets import Downloads
from strata_hub.metrics import serve
from strata_hub.pods import pod_hook
from strata_hub.spawner import DatasetSpawner
profiles, access = get_config("singleuser.profileList"), get_config("custom.profileAccess")
tenants, accelerators = get_config("custom.tenants"), get_config("custom.accelerators")
limits = {tenant["name"]: Limits(**tenant["limits"]) for tenant in tenants}
c.KubeSpawner.profile_list = profile_list(profiles, access)
c.KubeSpawner.modify_pod_hook = pod_hook(
    tenants, profiles, access, limits, accelerators, get_config("custom.sharedFolders"),
    Downloads(**get_config("custom.downloads")),
)
c.JupyterHub.spawner_class = DatasetSpawner
c.JupyterHub.extra_handlers = handlers(limits)
serve(get_config("custom.metricsPort"))
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
            "metricsPort": METRICS.port,
            "sharedFolders": _shared_folders(context),
            "downloads": _downloads(context),
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
    queue = context.provide(BATCH)
    address = f"postgresql+psycopg2://{database.name}@{database.host}:{database.port}/{database.name}"
    tls = f"sslmode=verify-full&sslrootcert={_ca('database')}"
    files = {"database-ca.pem": database.ca} | ({"issuer-ca.pem": access.ca} if access.ca is not None else {})
    limits = {} if hub.maximum_servers is None else {"activeServerLimit": hub.maximum_servers}
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
            "Authenticator": {"auto_login": True, "admin_users": list(hub.administrators)},
            "GenericOAuthenticator": _login(context, access, url),
            "KubeSpawner": {
                # a server may need a minute to respond on a busy node
                "http_timeout": 120,
                "priority_class_name": context.provide(USER_PRIORITY),
                "pod_security_context": {"runAsUser": USER_ID, "runAsGroup": USER_ID},
                "container_security_context": RESTRICTED,
            },
        },
        "db": {"type": "postgres", "upgrade": True, "url": f"{address}?{tls}"},
        # 0 is no limit: pods wait for free resources in the queue of Kubernetes' scheduler, and nothing is refused
        "concurrentSpawnLimit": 0,
        # slow starts are no reason for the hub to end itself
        "consecutiveFailureLimit": 0,
        **limits,
        "extraConfig": {"strata": EXTRA_CONFIG + culling.CONFIG + (batch.CONFIG if queue else "")},
        "extraEnv": {
            "PGPASSWORD": {"valueFrom": {"secretKeyRef": database.password.value}},
            "OAUTH_CLIENT_SECRET": {"valueFrom": {"secretKeyRef": access.secret.value}},
            **batch.hub_environment(queue),
        },
        "extraFiles": {n: {"mountPath": str(CA_FILES / n), "stringData": text} for n, text in files.items()},
        "extraVolumes": [{"name": "tmp", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108  # of the container
        "services": {VERIFY_SERVICE: {}},
        "loadRoles": {
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
            "ingress": [{"from": list(metrics.clients), "ports": [_tcp(METRICS.port)]}],
            "egressAllowRules": CLOSED,
            "egress": [
                _database_rule(database),
                *_issuer_rules(access),
                # Kubernetes' API: the port of its Service, and of the node behind it
                {"ports": [_tcp(HTTPS), _tcp(KUBERNETES_API)]},
                *batch.hub_egress(queue),
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
    """Logins at the issuer; its claim `groups` becomes the user's groups at each login."""
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
    queue = context.provide(BATCH)
    environment = {**culling.server_environment(hub.culling), **batch.server_environment(queue)}
    balancer = {"to": [_address(context.address("load_balancer"))], "ports": [_tcp(HTTPS)]}
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
            "egress": [balancer, *batch.server_egress(queue)],
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
        "description": profile.description,
        "kubespawner_override": override,
    }


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
    found: Values = {}
    for need in filter(None, map(accelerators, context.settings.profiles)):
        cards = context.provide(need)
        found[str(need.kind)] = {
            "resource": cards.resource,
            "nodeSelector": dict(cards.node_selector),
            "tolerations": [dict(toleration) for toleration in cards.tolerations],
        }
    return found


def _shared_folders(context: ServiceContext[JupyterHub]) -> Values:
    """By tenant. The user of the checks, who has no tenant, uses that of the first."""
    need, tenants = shared_folders(context.settings), context.site.platform.tenants
    if need is None or not tenants:
        return {"folders": {}, "users": {}}
    claims = context.provide(need)
    folders = {t.name: {"claim": claims[t.name], "group": t.group_id} for t in tenants}
    return {"folders": folders, "users": {VERIFY_USER: tenants[0].name}}


def _downloads(context: ServiceContext[JupyterHub]) -> Values:
    """What init containers may download, and the CA of the site's own services."""
    hub = context.settings
    return {
        "bytes": hub.datasets.maximum_size.bytes,
        "seconds": hub.datasets.download_seconds or max(1, hub.start_seconds // 2),
        "authorities": context.secrets.ca,
    }


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
    found = [dict(toleration) for need in needed for toleration in context.provide(need).tolerations]
    return [toleration for index, toleration in enumerate(found) if toleration not in found[:index]]


def _tcp(port: int | str) -> Values:
    return {"port": port, "protocol": "TCP"}


def _address(address: str) -> Values:
    return {"ipBlock": {"cidr": f"{address}/{ip_address(address).max_prefixlen}"}}


def _database_rule(database: DatabaseAccess) -> Values:
    return {"to": [_address(database.host)], "ports": [_tcp(database.port)]}


def _issuer_rules(access: ClientAccess) -> Iterator[Values]:
    """Of an issuer in the cluster, or one outside on other ports than 443."""
    if access.pods:
        yield {"to": [pods_peer(access.namespace, access.pods)], "ports": [_tcp("http")]}
    if access.ports:
        yield {"ports": [_tcp(port) for port in access.ports]}
