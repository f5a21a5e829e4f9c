"""Orphaned resources: named after the site, in no record, left by an interrupted run or service.

Compared are the records that ought to agree: podman's objects with nova's and neutron's, OpenStack's with Pulumi's
state, nodes and releases of the cluster with the site's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from strata.access.helm import helm_releases
from strata.access.kubectl import kubectl_json
from strata.access.openstack import connect, project_id, server_groups, visible_servers, volumes
from strata.drift_model import OrphanedResource
from strata.layers import Layer
from strata.lifecycle import CloudLifecycle
from strata.roles import KUBERNETES_ROLES
from strata.site.context import SiteContext
from strata.site.host_list import hosts
from strata.site.outputs import PARTIAL
from strata.site.paths import SitePaths
from strata.stacks.pulumi_state import project_name, read_deployment, state_file

if TYPE_CHECKING:
    from openstack.connection import Connection

PROGRAMS = ("cloud", "platform")
OF_NEUTRON = "network:"
"""Owners of ports that neutron makes by itself begin so."""


def find_orphans(context: SiteContext, lifecycle: CloudLifecycle) -> list[OrphanedResource]:
    """Everything orphaned; nothing for a layer that is not up.

    Args:
        context: the site.
        lifecycle: of its cloud.

    Raises:
        SDKException, ClientException: OpenStack does not respond.
        PodmanError: podman refused.
    """
    states = {program: _deployment(context.paths, program) for program in PROGRAMS}
    orphans = [*_state(states), *_files(context.paths)]
    cloud = context.site.cloud
    if cloud is not None and context.cloud_outputs is not None:
        with connect(context) as connection:
            servers = {str(s.id) for s in visible_servers(connection, context)}
            orphans += lifecycle.orphans(connection, servers)
            orphans += _project(context, connection, _ids(states["cloud"]))
    if context.site.cluster is not None and context.paths.kubeconfig.exists():
        orphans += _cluster(context, states["platform"])
    return orphans


def _deployment(paths: SitePaths, program: str) -> dict[str, Any]:
    file = state_file(paths.pulumi, project_name(program), paths.site)
    return read_deployment(file) if file.exists() else {}


def _ids(deployment: dict[str, Any]) -> set[str]:
    return {str(r["id"]) for r in deployment.get("resources") or () if r.get("id")}


def _state(states: dict[str, dict[str, Any]]) -> Iterator[OrphanedResource]:
    for program, deployment in states.items():
        layer = Layer(program)
        for operation in deployment.get("pending_operations") or ():
            name = operation["resource"]["urn"].rpartition("::")[2]
            fix = f"strata up SITE --layer {program}"
            yield OrphanedResource(
                layer=layer, object=f"{operation['type']} {name}", why="Pulumi did not see its end", fix=fix
            )
        for resource in deployment.get("resources") or ():
            if resource.get("delete"):
                name = resource["urn"].rpartition("::")[2]
                fix = f"strata up SITE --layer {program}"
                yield OrphanedResource(
                    layer=layer, object=name, why="replaced, and its deletion did not happen", fix=fix
                )


def _files(paths: SitePaths) -> Iterator[OrphanedResource]:
    for file in paths.root.rglob(f".*{PARTIAL}"):
        yield OrphanedResource(layer=Layer.CLOUD, object=str(file), why="partially written", fix="strata up SITE")


def _project(context: SiteContext, connection: Connection, known: set[str]) -> Iterator[OrphanedResource]:
    """Objects of the site's project that Pulumi does not know; the default security group is neutron's own."""
    project = project_id(connection, context)
    if project is None:
        return
    network: Any = connection.network
    own = {"project_id": project}
    kinds: dict[str, list[Any]] = {
        "server": [s for s in visible_servers(connection, context) if s.project_id == project],
        # neutron removes the port of an instance with it, or Pulumi does
        "port": [p for p in network.ports(**own) if not (p.device_owner or "").startswith(OF_NEUTRON)],
        "subnet": list(network.subnets(**own)),
        "network": list(network.networks(**own)),
        "router": list(network.routers(**own)),
        "floating ip": list(network.ips(**own)),
        "security group": [g for g in network.security_groups(**own) if g.name != "default"],
        "server group": list(server_groups(connection, context)),
        # a boot volume is the instance's, and goes with it
        "volume": [v for v in volumes(connection, context) if not (v.is_bootable and v.attachments)],
    }
    for kind, objects in kinds.items():
        for item in objects:
            if str(item.id) not in known:
                yield OrphanedResource(
                    layer=Layer.CLOUD,
                    object=f"{kind} {item.name or item.id}",
                    why="Pulumi's state does not have it",
                    fix=f"openstack {kind} delete {item.id}",
                )


def _cluster(context: SiteContext, deployment: dict[str, Any]) -> Iterator[OrphanedResource]:
    nodes = {h.name for h in hosts(context.site, context.cloud_outputs) if set(KUBERNETES_ROLES) & set(h.roles)}
    for node in (kubectl_json(context, "get", "nodes") or {}).get("items", []):
        name = node["metadata"]["name"]
        if name not in nodes:
            fix = f"kubectl delete node {name}"
            yield OrphanedResource(layer=Layer.CLUSTER, object=f"node {name}", why="the site has no such host", fix=fix)
    releases = {
        (r["outputs"].get("namespace"), r["outputs"].get("name"))
        for r in deployment.get("resources") or ()
        if r["type"] == "kubernetes:helm.sh/v3:Release" and r.get("outputs")
    }
    for release in helm_releases(context, "--all"):
        what = f"release {release['name']} in {release['namespace']}"
        if (release["namespace"], release["name"]) not in releases:
            fix = f"helm uninstall -n {release['namespace']} {release['name']}"
            yield OrphanedResource(layer=Layer.PLATFORM, object=what, why="Pulumi's state does not have it", fix=fix)
        elif release["status"] != "deployed":
            fix = "strata up SITE --layer platform"
            yield OrphanedResource(layer=Layer.PLATFORM, object=what, why=f"is {release['status']}", fix=fix)
