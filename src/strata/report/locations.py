"""Where every node is, planned or seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strata.access.ssh import host_addresses
from strata.models.compute import Hypervisor
from strata.observe import HostFacts, Observation, PodFacts
from strata.observe.hosts import expected_cards, host_roles
from strata.report.allocation import free_cards, known_cards, node_cards
from strata.report.model import CardReport, NodeReport, PlaceReport, State, UnitReport
from strata.roles import KUBERNETES_ROLES, units_of
from strata.site.context import SiteContext
from strata.site.host_list import running_roles

NOT_PLACED = "no hypervisor yet"


def places(context: SiteContext, seen: Observation, *, up: bool) -> tuple[PlaceReport, ...]:
    """Hypervisors with their instances, then bare-metal hosts by institution.

    Args:
        context: the site.
        seen: what was observed.
        up: whether the site was ever brought up.
    """
    nodes = _nodes(context, seen, up=up)
    reports: list[PlaceReport] = []
    cloud = context.site.cloud
    if cloud is not None:
        on: dict[str, list[NodeReport]] = {h.name: [] for h in cloud.hypervisors}
        elsewhere: list[NodeReport] = []
        for instance in cloud.instances:
            server = seen.cloud.servers.get(instance.name)
            where = server.hypervisor if server and server.hypervisor else None
            if where is None:
                elsewhere.append(nodes[instance.name])
            else:
                on.setdefault(where, []).append(nodes[instance.name])
        known = {h.name: h for h in cloud.hypervisors}
        cards = [card for node in nodes.values() for card in node.cards]
        reports += [_hypervisor(context, seen, name, known.get(name), tuple(n), cards) for name, n in on.items()]
        if elsewhere:
            reports.append(
                PlaceReport(
                    name=NOT_PLACED,
                    kind="not placed",
                    detail="nova's scheduler chooses" if not up else "nova does not report where they are",
                    state=_sum(elsewhere),
                    nodes=tuple(elsewhere),
                    free=(),
                )
            )
    return (*reports, *_machines(context, nodes))


def _machines(context: SiteContext, nodes: Mapping[str, NodeReport]) -> list[PlaceReport]:
    groups: dict[tuple[str, str], list[NodeReport]] = {}
    for machine in context.site.hosts.machines:
        key = (machine.institution or "machines", machine.zone or "")
        groups.setdefault(key, []).append(nodes[machine.name])
    return [
        PlaceReport(name=name, kind="machines", detail=zone, state=_sum(members), nodes=tuple(members), free=())
        for (name, zone), members in groups.items()
    ]


def _sum(nodes: list[NodeReport]) -> State:
    states = {n.state for n in nodes}
    return states.pop() if len(states) == 1 else State.PARTIAL


def _hypervisor(
    context: SiteContext,
    seen: Observation,
    name: str,
    model: Hypervisor | None,
    nodes: tuple[NodeReport, ...],
    everyone: Sequence[CardReport],
) -> PlaceReport:
    held = [card for node in nodes for card in node.cards]
    if seen.cloud.reason is not None:  # nova does not report which is where; a lab's cards are known by their addresses
        held = [card for card in everyone if card.address in known_cards(context.site, name)]
    free = () if model is None else free_cards(context.site, name, held, model.accelerators, seen)
    service = seen.cloud.hypervisors.get(name)
    if seen.cloud.reason is not None:
        state = State.PLANNED if seen.cloud.reason == "not up" else State.DOWN
    else:
        state = State.GOOD if service in ("up", None) else State.DOWN
    size = f"{model.vcpus} vCPUs, {model.memory}, {model.disk}" if model else "not in the site file"
    return PlaceReport(
        name=name,
        kind="hypervisor",
        detail=size + (f", nova-compute {service}" if service else ""),
        state=state,
        nodes=nodes,
        free=free,
    )


def _nodes(context: SiteContext, seen: Observation, *, up: bool) -> dict[str, NodeReport]:
    site = context.site
    addresses = host_addresses(context)
    cards = expected_cards(site)
    flavors = {i.name: i.flavor for i in site.cloud.instances} if site.cloud else {}
    pods: dict[str, list[PodFacts]] = {}
    for pod in seen.cluster.pods:
        pods.setdefault(pod.node or "", []).append(pod)
    reports: dict[str, NodeReport] = {}
    for name, roles in host_roles(context).items():
        facts = seen.hosts.get(name) or HostFacts(reason="not asked")
        server = seen.cloud.servers.get(name)
        cloud = None if name not in flavors else (server.status if server else seen.cloud.reason or "missing")
        in_cluster = site.cluster is not None and bool(set(KUBERNETES_ROLES) & set(roles))
        cluster = (seen.cluster.nodes.get(name) or seen.cluster.reason or "missing") if in_cluster else None
        units = units_of(running_roles(site, roles))
        states = {u: facts.reason or facts.units.get(u, "not loaded") for u in units}
        own = pods.get(name, [])
        reports[name] = NodeReport(
            name=name,
            kind="instance" if name in flavors else "machine",
            state=_state(facts, cloud, cluster, states) if up else State.PLANNED,
            address=addresses.get(name),
            flavor=flavors.get(name),
            roles=roles,
            cloud=cloud,
            cluster=cluster,
            pods=len(own),
            units=tuple(UnitReport(name=u, state=s) for u, s in states.items()),
            cards=node_cards(site.accelerators, name, cards.get(name, {}), facts, [p for p in own if p.devices], up),
        )
    return reports


def _state(facts: HostFacts, cloud: str | None, cluster: str | None, units: Mapping[str, str]) -> State:
    checks = [state == "active" for state in units.values()] or [facts.reason is None]
    checks += [] if cloud is None else [cloud == "ACTIVE"]
    checks += [] if cluster is None else [cluster == "Ready"]
    if all(checks):
        return State.GOOD
    return State.PARTIAL if any(checks) else State.DOWN
