"""What of a site runs now."""

from __future__ import annotations

import concurrent.futures
import fnmatch
import json
import subprocess
from collections.abc import Callable

from pydantic import BaseModel, ConfigDict
from rich.console import Console
from rich.table import Table

from strata.engine.context import SiteContext
from strata.engine.hosts import host_addresses, ssh_arguments
from strata.engine.steps import Layer


class ObjectStatus(BaseModel):
    """One object: what is wanted and what was found."""

    model_config = ConfigDict(frozen=True)
    layer: Layer
    object: str
    wanted: str
    found: str

    @property
    def healthy(self) -> bool:
        """Found as wanted."""
        return self.found == self.wanted


def site_status(context: SiteContext) -> list[ObjectStatus]:
    """Asks each layer; a layer that cannot be reached is told as such, not raised."""
    probes: list[Callable[[SiteContext], list[ObjectStatus]]] = [_cloud, _hosts, _cluster, _platform]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        return [o for found in pool.map(lambda probe: probe(context), probes) for o in found]


def _cloud(context: SiteContext) -> list[ObjectStatus]:
    cloud = context.site.cloud
    if cloud is None:
        return []
    wanted = {f"instance {i.name}": "ACTIVE" for i in cloud.instances}
    wanted |= {f"hypervisor {h.name}": "up" for h in cloud.hypervisors} if cloud.deployment == "lab" else {}
    wanted |= {f"flavor {f.name}": "present" for f in cloud.flavors}
    found: dict[str, str] = {}
    missing = "missing"
    if not context.paths.clouds_file.exists() and cloud.deployment == "lab":
        missing = "not up"
    else:
        import openstack
        from keystoneauth1.exceptions import ClientException
        from openstack.exceptions import SDKException

        from strata.engine.environment import site_environment

        variables = site_environment(context)
        try:
            files = [variables["OS_CLIENT_CONFIG_FILE"]] if "OS_CLIENT_CONFIG_FILE" in variables else None
            loader = openstack.config.OpenStackConfig(config_files=files)
            region = loader.get_one(cloud=variables["OS_CLOUD"])
            with openstack.connection.Connection(config=region) as connection:
                for server in connection.compute.servers(all_projects=True):
                    found[f"instance {server.name}"] = server.status
                for service in connection.compute.services(binary="nova-compute"):
                    found[f"hypervisor {service.host}"] = service.state
                for flavor in connection.compute.flavors():
                    found[f"flavor {flavor.name}"] = "present"
        except (SDKException, ClientException, OSError) as error:
            missing = f"unreachable: {str(error).splitlines()[0][:120]}"
    return [
        ObjectStatus(layer=Layer.CLOUD, object=name, wanted=value, found=found.get(name, missing))
        for name, value in wanted.items()
    ]


UNITS = {
    "nfs_server": "nfs-ganesha",
    "postgresql": "postgresql@*-main",
    "kine": "kine",
    "registry": "docker-registry",
    "load_balancer": "haproxy",
    "kube_control_plane": "kubelet",
    "kube_node": "kubelet",
}
"""The unit that carries a role."""


def _hosts(context: SiteContext) -> list[ObjectStatus]:
    roles: dict[str, tuple[str, ...]] = {m.name: tuple(m.roles) for m in context.site.hosts.machines}
    if context.site.cloud is not None:
        roles |= {i.name: tuple(i.roles) for i in context.site.cloud.instances}
    addresses = host_addresses(context)
    found: list[ObjectStatus] = []

    def ask(name: str) -> list[ObjectStatus]:
        units = list(dict.fromkeys(UNITS[r] for r in roles[name] if r in UNITS))
        address = addresses.get(name)
        if address is None:
            states = dict.fromkeys(units, "no address yet")
        else:
            listing = ["systemctl", "list-units", "--all", "--plain", "--no-legend", *(f"'{u}.service'" for u in units)]
            done = subprocess.run(
                ["ssh", *ssh_arguments(context.paths), f"root@{address}", *listing],
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                check=False,
            )
            reason = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "not loaded"
            states = dict.fromkeys(units, reason)
            for line in done.stdout.splitlines():
                unit, _, active, *_ = line.split()
                states |= {u: active for u in units if fnmatch.fnmatch(unit, f"{u}.service")}
        return [
            ObjectStatus(layer=Layer.HOSTS, object=f"{name}: {unit}", wanted="active", found=state)
            for unit, state in states.items()
        ]

    with concurrent.futures.ThreadPoolExecutor(max_workers=16) as pool:
        for statuses in pool.map(ask, roles):
            found += statuses
    return found


def _run_json(context: SiteContext, *command: str) -> tuple[object | None, str]:
    from strata.engine.environment import site_environment
    from strata.toolchain import tools_environment

    if not context.paths.kubeconfig.exists():
        return None, "not up"
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=tools_environment() | site_environment(context),
            timeout=20,
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        return None, f"unreachable: {error}"
    if done.returncode != 0:
        return None, f"unreachable: {done.stderr.strip().splitlines()[-1][:120] if done.stderr.strip() else command[0]}"
    return json.loads(done.stdout), "missing"


def _cluster(context: SiteContext) -> list[ObjectStatus]:
    site = context.site
    if site.cluster is None:
        return []
    names = (
        [i.name for i in site.cloud.instances if {"kube_control_plane", "kube_node"} & set(i.roles)]
        if site.cloud
        else []
    )
    names += [m.name for m in site.hosts.machines if {"kube_control_plane", "kube_node"} & set(m.roles)]
    answer, missing = _run_json(context, "kubectl", "get", "nodes", "-o", "json", "--request-timeout=10s")
    ready: dict[str, str] = {}
    if isinstance(answer, dict):
        for item in answer["items"]:
            condition = next(c for c in item["status"]["conditions"] if c["type"] == "Ready")
            ready[item["metadata"]["name"]] = "Ready" if condition["status"] == "True" else str(condition["reason"])
    return [
        ObjectStatus(layer=Layer.CLUSTER, object=f"node {n}", wanted="Ready", found=ready.get(n, missing))
        for n in names
    ]


def _platform(context: SiteContext) -> list[ObjectStatus]:
    if context.site.cluster is None:
        return []
    from strata.platform.releases import release_names

    answer, missing = _run_json(context, "helm", "list", "--all-namespaces", "--output", "json")
    states = {str(r["name"]): str(r["status"]) for r in answer} if isinstance(answer, list) else {}
    return [
        ObjectStatus(layer=Layer.PLATFORM, object=f"release {n}", wanted="deployed", found=states.get(n, missing))
        for n in release_names(context.site)
    ]


def print_status(console: Console, context: SiteContext, found: list[ObjectStatus]) -> None:
    """A table, the unhealthy ones marked."""
    table = Table("", "layer", "object", "wanted", "found", title=f"site {context.site.name}", title_justify="left")
    for status in found:
        mark = "[green]✓[/]" if status.healthy else "[red]✗[/]"
        table.add_row(mark, status.layer, status.object, status.wanted, status.found)
    console.print(table)
    bad = sum(not s.healthy for s in found)
    if bad:
        console.print(
            f"{bad} of {len(found)} not as wanted; `strata up {context.site.name}` repairs them", highlight=False
        )
    else:
        console.print(f"[green]all {len(found)} as wanted[/]", highlight=False)
