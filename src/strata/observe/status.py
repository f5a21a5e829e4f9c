"""What of a site runs now, object by object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, ConfigDict
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from strata.catalogue.needs.namespace import Namespace
from strata.catalogue.published import published
from strata.catalogue.service import SYSTEM_NAMESPACE as SERVICES_NAMESPACE
from strata.catalogue.site_services import needed
from strata.layers import Layer
from strata.observe import HostFacts, Observation, observe
from strata.observe.facts import WorkloadFacts
from strata.observe.hosts import host_roles
from strata.observe.services import questions
from strata.observe.workloads import SCALED_TO_0, SYSTEM_NAMESPACE
from strata.platform.releases import releases
from strata.roles import KUBERNETES_ROLES, units_of
from strata.site.context import SiteContext
from strata.site.host_list import running_roles
from strata.site.support import remedy

CERTIFICATE_LEFT = timedelta(days=14)
"""As the alert CertificateExpires."""


class ObjectStatus(BaseModel):
    """One object: its desired and its actual state."""

    model_config = ConfigDict(frozen=True)
    layer: Layer
    object: str
    wanted: str
    found: str
    command: str = ""
    """What to run next if it is not in the desired state."""
    up_repairs: bool = True
    """Whether `strata up` brings it into the desired state, unlike what hangs or fails."""

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
        *_services(context, seen),
    ]


def _cloud(context: SiteContext, seen: Observation) -> list[ObjectStatus]:
    cloud, facts = context.site.cloud, seen.cloud
    if cloud is None:
        return []
    missing = facts.reason or "missing"
    statuses = [
        ObjectStatus(
            layer=Layer.CLOUD,
            object=f"instance {i.name}",
            wanted="ACTIVE",
            found=facts.servers[i.name].status if i.name in facts.servers else missing,
        )
        for i in cloud.instances
    ]
    if context.provider.owns_cloud:
        statuses += [
            ObjectStatus(
                layer=Layer.CLOUD,
                object=f"hypervisor {h.name}",
                wanted="up",
                found=facts.hypervisors.get(h.name, missing),
            )
            for h in cloud.hypervisors
        ]
    return statuses + [
        ObjectStatus(
            layer=Layer.CLOUD,
            object=f"flavor {f.name}",
            wanted="present",
            found="present" if f.name in facts.flavors else missing,
        )
        for f in cloud.flavors
    ]


def _hosts(context: SiteContext, seen: Observation) -> list[ObjectStatus]:
    statuses: list[ObjectStatus] = []
    for name, roles in host_roles(context).items():
        facts = seen.hosts.get(name) or HostFacts(reason="not asked")
        units = units_of(running_roles(context.site, roles))
        for unit in units:
            state = facts.reason or facts.units.get(unit, "not loaded")
            command = "" if facts.reason else f"journalctl --unit '{unit}.service' --lines 50"
            hangs = state == "active" and unit in facts.silent
            if hangs:
                state, command = f"active, but {facts.silent[unit]}", f"{command}; systemctl restart '{unit}.service'"
            statuses.append(
                ObjectStatus(
                    layer=Layer.HOSTS,
                    object=f"{name}: {unit}",
                    wanted="active",
                    found=state,
                    command=command,
                    up_repairs=not hangs,
                )
            )
        statuses += [
            ObjectStatus(layer=Layer.HOSTS, object=f"{name}: {port}", wanted="answers", found=why, up_repairs=False)
            for port, why in facts.silent.items()
            if port not in units
        ]
        statuses += [
            _certificate(Layer.HOSTS, f"{name}: certificate of {what}", ends)
            for what, ends in facts.certificates.items()
            if _expires(ends)
        ]
        # a host that has enough of everything needs no line
        if facts.lacks:
            statuses.append(
                ObjectStatus(
                    layer=Layer.HOSTS, object=f"{name}: room", wanted="enough", found=f"none: {'; '.join(facts.lacks)}"
                )
            )
        statuses += [
            ObjectStatus(layer=Layer.HOSTS, object=f"{name}: {what}", wanted="OK", found=why)
            for what, _, why in (problem.partition(": ") for problem in facts.problems)
        ]
    return statuses


def _cluster(context: SiteContext, seen: Observation) -> list[ObjectStatus]:
    if context.site.cluster is None:
        return []
    missing = seen.cluster.reason or "missing"
    nodes = [
        ObjectStatus(
            layer=Layer.CLUSTER, object=f"node {name}", wanted="Ready", found=seen.cluster.nodes.get(name, missing)
        )
        for name, roles in host_roles(context).items()
        if set(KUBERNETES_ROLES) & set(roles)
    ]
    own = [
        workload
        for workload in seen.cluster.workloads
        if workload.release is None and workload.namespace == SYSTEM_NAMESPACE
    ]
    return [*nodes, *(_workload(Layer.CLUSTER, workload) for workload in own)]


def _workload(layer: Layer, workload: WorkloadFacts, of: str = "") -> ObjectStatus:
    name = f"{of}{workload.kind} {workload.name}"
    return ObjectStatus(
        layer=layer,
        object=name,
        wanted=workload.wanted,
        found=workload.state,
        command=workload.command,
        up_repairs=workload.reason == SCALED_TO_0,
    )


def _expires(ends: datetime) -> bool:
    return ends - datetime.now(UTC) < CERTIFICATE_LEFT


def _certificate(layer: Layer, name: str, ends: datetime) -> ObjectStatus:
    past = "expired" if ends < datetime.now(UTC) else "expires"
    return ObjectStatus(layer=layer, object=name, wanted="valid", found=f"{past} {ends:%Y-%m-%d %H:%M} UTC")


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

    missing = seen.platform.reason or "missing"
    statuses: list[ObjectStatus] = []
    for release in releases(context.site):
        state = seen.platform.releases.get(release.key, missing)
        statuses.append(
            ObjectStatus(layer=Layer.PLATFORM, object=f"release {release.name}", wanted="deployed", found=state)
        )
        statuses += [
            _workload(Layer.PLATFORM, workload, f"{release.name}: ")
            for workload in seen.cluster.workloads
            if workload.release == release.key
        ]
    namespaces = {SERVICES_NAMESPACE, *(need.name for _, need in needed(context.site, Namespace))}
    return statuses + [
        _workload(Layer.PLATFORM, workload, f"{workload.namespace}: ")
        for workload in seen.cluster.workloads
        if workload.release is None and workload.namespace in namespaces
    ]


def _services(context: SiteContext, seen: Observation) -> list[ObjectStatus]:
    """What is asked of the services themselves, and the certificate that all of them show."""
    if context.site.cluster is None:
        return []
    facts = seen.services
    asked = {
        service.health_url: f"{service.key.replace('_', '-')}: {service.url}" for service in published(context.site)
    }
    asked |= {name: name for name in questions(context)}
    statuses = [
        ObjectStatus(
            layer=Layer.PLATFORM,
            object=name,
            wanted="answers",
            found=facts.reason or facts.silent.get(key, "answers"),
            up_repairs=facts.reason is not None,
        )
        for key, name in asked.items()
    ]
    if facts.ends is not None and _expires(facts.ends):
        statuses.append(_certificate(Layer.PLATFORM, "certificate of the ingress controller", facts.ends))
    return statuses


def memory_notes(seen: Observation) -> tuple[str, ...]:
    """A line for each host where processes ended because memory ran out; systemd has started them again since."""
    return tuple(
        f"{name}: the kernel ended {', '.join(dict.fromkeys(facts.killed))} because memory ran out "
        f"({len(facts.killed)} processes); systemd starts services again, a larger flavor prevents it "
        "(`journalctl -k` there shows when)"
        for name, facts in seen.hosts.items()
        if facts.killed
    )


def advice(context: SiteContext, bad: Sequence[ObjectStatus]) -> str:
    """What repairs these objects, or shows why they are not in the desired state: a clause without a full stop."""
    layers = {status.layer for status in bad if status.up_repairs}
    if len([status for status in bad if status.up_repairs]) == len(bad):
        return remedy(context, layers)
    shown = "the commands show why"
    return f"{shown}; {remedy(context, layers, 'what is missing or stopped')}" if layers else shown


def commands(context: SiteContext, bad: Iterable[ObjectStatus]) -> Iterator[str]:
    """What to run next, one line for each object that has such a command.

    Args:
        context: the site.
        bad: objects that are not in the desired state.
    """
    described = {status.object: status.command for status in bad if status.command}
    if any(command.startswith("kubectl") for command in described.values()):
        yield f'for kubectl: eval "$(strata env {context.site.name})"'
    yield from (f"{name}: {command}" for name, command in described.items())


def print_status(console: Console, context: SiteContext, statuses: list[ObjectStatus]) -> None:
    """A table, the unhealthy ones marked."""
    table = Table("", "layer", "object", "desired", "actual", title=f"site {context.site.name}", title_justify="left")
    for status in statuses:
        mark = "[green]✓[/]" if status.healthy else "[red]✗[/]"
        table.add_row(mark, status.layer, escape(status.object), status.wanted, escape(status.found))
    console.print(table)
    bad = [s for s in statuses if not s.healthy]
    if bad:
        for line in commands(context, bad):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        what = advice(context, bad)
        console.print(f"{len(bad)} of {len(statuses)} not in the desired state; {what}", highlight=False)
    else:
        console.print(f"[green]all {len(statuses)} in the desired state[/]", highlight=False)
