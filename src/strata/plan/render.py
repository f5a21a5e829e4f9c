"""The plan for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from strata.models.types import Size
from strata.plan.model import CloudPlan, ClusterPlan, HostsPlan, Plan, PlatformPlan

LAYERS = ("cloud", "hosts", "cluster", "platform")
SHOWN_ROWS = 30
"""Rows of a table before it only counts; `--json` has them all."""


def render(plan: Plan, console: Console, layers: Sequence[str] = LAYERS) -> None:
    """Prints the plan.

    Args:
        plan: what to print.
        console: where to.
        layers: which of cloud, hosts, cluster, platform.
    """
    console.print(f"[bold]site {plan.site}[/] ({plan.domain})", highlight=False)
    parts: Mapping[str, Callable[[], None]] = {
        "cloud": lambda: _cloud(plan.cloud, console),
        "hosts": lambda: _hosts(plan.hosts, console),
        "cluster": lambda: _cluster(plan.cluster, console),
        "platform": lambda: _platform(plan.platform, console),
    }
    for layer in LAYERS:
        if layer in layers:
            console.print(f"\n[bold]{layer}[/]", highlight=False)
            parts[layer]()


def _line(console: Console, label: str, text: str) -> None:
    console.print(f"  {label:<16}{text}", highlight=False, markup=False, soft_wrap=True)


def _table(console: Console, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold")
    listed = list(rows)
    for row in listed[:SHOWN_ROWS]:
        table.add_row(*row)
    if listed:
        console.print(table, highlight=False)
    if len(listed) > SHOWN_ROWS:
        console.print(f"… and {len(listed) - SHOWN_ROWS} more; --json lists all", highlight=False)


def _cards(accelerators: Mapping[str, int]) -> str:
    return ", ".join(f"{count} × {kind}" for kind, count in accelerators.items())


def _cloud(cloud: CloudPlan | None, console: Console) -> None:
    if cloud is None:
        _line(console, "no cloud", "the site has machines only")
        return
    project = cloud.project
    _line(console, "deployment", f"{cloud.deployment} ({cloud.location})")
    if project.memory_mib is None:
        _line(console, "project", f"{project.name}: existing, with the quota that it has")
    else:
        memory = Size(project.memory_mib * 2**20)
        _line(console, "project", f"{project.name}: {project.instances} instances, {project.cores} cores, {memory}")
    _line(console, "key pair", cloud.key_pair)
    for network in cloud.networks:
        pool = f"{network.pool_start} to {network.pool_end}"
        where = "existing" if network.existing else f"gateway {network.gateway}, pool {pool}"
        _line(console, "network", f"{network.name}: {network.cidr}, {where}")
    if router := cloud.router:
        made = f", made as {router.cidr}" if router.cidr else ""
        _line(console, "router", f"{router.name}: {', '.join(router.networks)} to {router.external_network}{made}")
    for group in cloud.security_groups:
        _line(console, "security group", f"{group.name}: {len(group.rules)} rules")
    for image in cloud.images:
        source = "built and uploaded" if image.uploaded else "expected in the cloud"
        _line(console, "image", f"{image.name}: {image.distribution} {image.release}, {source}")
    for aggregate in cloud.aggregates:
        metadata = ", ".join(f"{k}={v}" for k, v in aggregate.metadata.items())
        hosts = ", ".join(aggregate.hosts[:5]) + (
            f", … {len(aggregate.hosts)} hosts" if len(aggregate.hosts) > 5 else ""
        )
        _line(console, "aggregate", f"{aggregate.name} ({metadata}): {hosts}")
    _table(
        console,
        ("flavor", "vCPUs", "memory", "disk", "extra specs"),
        (
            (
                f"{f.name} (existing)" if f.existing else f.name,
                str(f.vcpus),
                str(Size(f.memory_mib * 2**20)),
                str(Size(f.disk_gib * 2**30)),
                ", ".join(f"{k}={v}" for k, v in f.extra_specs.items()),
            )
            for f in cloud.flavors
        ),
    )
    _table(
        console,
        ("instance", "flavor", "image", "network", "accelerators"),
        ((i.name, i.flavor, i.image, i.network, _cards(i.accelerators)) for i in cloud.instances),
    )
    _table(
        console,
        ("volume", "size", "type", "instance", "mounted on"),
        (
            (v.name, str(Size(v.size_gib * 2**30)), v.volume_type or "default", v.instance, v.mount_path)
            for v in cloud.volumes
        ),
    )
    for spread in cloud.server_groups:
        names = ", ".join(spread.instances) or "no instances"
        _line(console, "server group", f"{spread.name} ({spread.policy}): {names}")
    for zone in sorted({i.availability_zone for i in cloud.instances if i.availability_zone}):
        _line(console, "zone", f"{zone}: {', '.join(i.name for i in cloud.instances if i.availability_zone == zone)}")
    if outside := [i.name for i in cloud.instances if i.floating_ip]:
        _line(console, "floating IPs", ", ".join(outside))


def _hosts(hosts: HostsPlan, console: Console) -> None:
    _table(
        console,
        ("host", "address", "roles", "institution"),
        ((h.name, h.address or "from the cloud", ", ".join(h.roles), h.institution or "") for h in hosts.hosts),
    )
    for name, path in hosts.nfs_exports.items():
        _line(console, "NFS export", f"{name}: {path}")
    if hosts.databases:
        _line(console, "databases", ", ".join(hosts.databases))


def _cluster(cluster: ClusterPlan | None, console: Console) -> None:
    if cluster is None:
        _line(console, "no cluster", "")
        return
    control = sum(node.control_plane for node in cluster.nodes)
    _line(console, "cluster", f"{cluster.name}, installed by {cluster.installer}, datastore {cluster.datastore}")
    _line(console, "networks", f"pods {cluster.pod_network}, services {cluster.service_network}")
    _line(console, "nodes", f"{control} control plane, {len(cluster.nodes) - control} others")
    _table(
        console,
        ("node", "kind", "accelerators", "labels", "taints"),
        (
            (
                n.name,
                "control plane" if n.control_plane else "worker",
                _cards(n.accelerators),
                ", ".join(f"{k}={v}" for k, v in n.labels.items()),
                ", ".join(n.taints),
            )
            for n in cluster.nodes
        ),
    )


def _platform(platform: PlatformPlan | None, console: Console) -> None:
    if platform is None:
        _line(console, "no platform", "it needs a cluster")
        return
    _table(
        console,
        ("release", "chart", "namespace", "address"),
        ((r.name, r.chart, r.namespace, r.address or "") for r in platform.releases),
    )
