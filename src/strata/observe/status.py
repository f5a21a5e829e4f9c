"""What of a site runs now, object by object."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from strata.layers import Layer
from strata.observe import HostFacts, Observation, observe
from strata.observe.facts import WorkloadFacts
from strata.observe.hosts import host_roles
from strata.roles import units_of
from strata.site.context import SiteContext
from strata.site.hosts import running_roles
from strata.site.support import remedy

NODE_ROLES = frozenset({"kube_control_plane", "kube_node"})


class ObjectStatus(BaseModel):
    """One object: its desired and its actual state."""

    model_config = ConfigDict(frozen=True)
    layer: Layer
    object: str
    wanted: str
    found: str

    @property
    def healthy(self) -> bool:
        """Whether the actual state is the desired one."""
        return self.found == self.wanted


def site_status(context: SiteContext, observation: Observation | None = None) -> list[ObjectStatus]:
    """Every object that the site asks for, with what was found.

    Args:
        context: the site.
        observation: what was seen; None to look now.
    """
    seen = observation or observe(context)
    return [
        *_cloud(context, seen),
        *_hosts(context, seen),
        *_cluster(context, seen),
        *_unhealthy_cards(seen),
        *_platform(context, seen),
    ]


def _cloud(context: SiteContext, seen: Observation) -> list[ObjectStatus]:
    cloud, facts = context.site.cloud, seen.cloud
    if cloud is None:
        return []
    missing = facts.reason or "missing"
    found = [
        ObjectStatus(
            layer=Layer.CLOUD,
            object=f"instance {i.name}",
            wanted="ACTIVE",
            found=facts.servers[i.name].status if i.name in facts.servers else missing,
        )
        for i in cloud.instances
    ]
    if context.provider.owns_cloud:
        found += [
            ObjectStatus(
                layer=Layer.CLOUD,
                object=f"hypervisor {h.name}",
                wanted="up",
                found=facts.hypervisors.get(h.name, missing),
            )
            for h in cloud.hypervisors
        ]
    return found + [
        ObjectStatus(
            layer=Layer.CLOUD,
            object=f"flavor {f.name}",
            wanted="present",
            found="present" if f.name in facts.flavors else missing,
        )
        for f in cloud.flavors
    ]


def _hosts(context: SiteContext, seen: Observation) -> list[ObjectStatus]:
    found: list[ObjectStatus] = []
    for name, roles in host_roles(context).items():
        facts = seen.hosts.get(name) or HostFacts(reason="not asked")
        for unit in units_of(running_roles(context.site, roles)):
            state = facts.reason or facts.units.get(unit, "not loaded")
            found.append(ObjectStatus(layer=Layer.HOSTS, object=f"{name}: {unit}", wanted="active", found=state))
        # a host that has enough of everything needs no line
        if facts.lacks:
            found.append(
                ObjectStatus(
                    layer=Layer.HOSTS, object=f"{name}: room", wanted="enough", found=f"none: {'; '.join(facts.lacks)}"
                )
            )
        found += [
            ObjectStatus(layer=Layer.HOSTS, object=f"{name}: {what}", wanted="OK", found=why)
            for what, _, why in (problem.partition(": ") for problem in facts.problems)
        ]
    return found


def _cluster(context: SiteContext, seen: Observation) -> list[ObjectStatus]:
    if context.site.cluster is None:
        return []
    missing = seen.cluster.reason or "missing"
    nodes = [
        ObjectStatus(
            layer=Layer.CLUSTER, object=f"node {name}", wanted="Ready", found=seen.cluster.nodes.get(name, missing)
        )
        for name, roles in host_roles(context).items()
        if NODE_ROLES & set(roles)
    ]
    return [*nodes, *(_workload(Layer.CLUSTER, one) for one in seen.cluster.workloads if one.release is None)]


def _workload(layer: Layer, one: WorkloadFacts, of: str = "") -> ObjectStatus:
    return ObjectStatus(layer=layer, object=f"{of}{one.kind} {one.name}", wanted=one.wanted, found=one.state)


def _unhealthy_cards(seen: Observation) -> list[ObjectStatus]:
    """A node whose cards are all healthy needs no line."""
    return [
        ObjectStatus(
            layer=Layer.CLUSTER,
            object=f"node {node}: {resource}",
            wanted="healthy",
            found=f"{number} unhealthy, {seen.cluster.cards.get(node, {}).get(resource, 0)} allocatable",
        )
        for node, resources in sorted(seen.cluster.unhealthy.items())
        for resource, number in sorted(resources.items())
    ]


def _platform(context: SiteContext, seen: Observation) -> list[ObjectStatus]:
    if context.site.cluster is None:
        return []
    from strata.platform.releases import releases

    missing = seen.platform.reason or "missing"
    found: list[ObjectStatus] = []
    for release in releases(context.site):
        state = seen.platform.releases.get(release.key, missing)
        found.append(
            ObjectStatus(layer=Layer.PLATFORM, object=f"release {release.name}", wanted="deployed", found=state)
        )
        found += [
            _workload(Layer.PLATFORM, one, f"{release.name}: ")
            for one in seen.cluster.workloads
            if one.release == release.key
        ]
    return found


def memory_notes(seen: Observation) -> tuple[str, ...]:
    """A line for each host where processes ended for lack of memory; systemd has started them again since."""
    return tuple(
        f"{name}: the kernel ended {', '.join(dict.fromkeys(facts.killed))} for lack of memory ({len(facts.killed)} "
        f"processes); systemd starts services again, a larger flavor prevents it (`journalctl -k` there says when)"
        for name, facts in seen.hosts.items()
        if facts.killed
    )


def print_status(console: Console, context: SiteContext, found: list[ObjectStatus]) -> None:
    """A table, the unhealthy ones marked."""
    table = Table("", "layer", "object", "desired", "actual", title=f"site {context.site.name}", title_justify="left")
    for status in found:
        mark = "[green]✓[/]" if status.healthy else "[red]✗[/]"
        table.add_row(mark, status.layer, escape(status.object), status.wanted, escape(status.found))
    console.print(table)
    bad = [s for s in found if not s.healthy]
    if bad:
        what = remedy(context, {s.layer for s in bad})
        console.print(f"{len(bad)} of {len(found)} not in the desired state; {what}", highlight=False)
    else:
        console.print(f"[green]all {len(found)} in the desired state[/]", highlight=False)
