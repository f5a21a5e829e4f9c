"""Allocation of accelerators: hypervisor, instance or machine, and pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from strata.models.accelerator_catalogue import Accelerator
from strata.models.site import Site
from strata.observe import HostFacts, Observation, PodFacts
from strata.provider import provider_of
from strata.report.model import CardReport, PodReport, State


def node_cards(
    kinds: Mapping[str, Accelerator],
    name: str,
    expected: Mapping[str, int],
    facts: HostFacts,
    pods: Sequence[PodFacts],
    up: bool,
) -> tuple[CardReport, ...]:
    """The cards of an instance or machine, those that are missing too.

    Args:
        kinds: those of the site.
        name: of the host.
        expected: kind to number, as in the site file.
        facts: what the host answered.
        pods: those on the host that asked for cards.
        up: whether the host was ever brought up; if not, its cards are planned.
    """
    by_identity = {(card.vendor_id, card.product_id): kind for kind, card in kinds.items()}
    by_uid = {pod.uid: pod for pod in pods}
    by_kind: dict[str, list[str]] = {}
    for at, identity in sorted(facts.devices.items()):
        if kind := by_identity.get(identity):
            by_kind.setdefault(kind, []).append(at)
    # pods that the kubelet's record does not name get the next card of their resource
    recorded = set(facts.assigned.values())
    waiting: dict[str, list[PodFacts]] = {}
    for pod in pods:
        if pod.uid not in recorded:
            for resource, count in pod.devices.items():
                waiting.setdefault(resource, []).extend([pod] * count)
    cards: list[CardReport] = []
    for kind in dict.fromkeys((*expected, *by_kind)):
        addresses = by_kind.get(kind, [])
        for index in range(max(expected.get(kind, 0), len(addresses))):
            address = addresses[index] if index < len(addresses) else None
            holder = by_uid.get(facts.assigned.get(address or "", ""))
            queue = waiting.get(kinds[kind].resource, [])
            if holder is None and queue and (address is None or address not in facts.assigned):
                holder = queue.pop(0)
            state, note = _card_state(index, address, expected.get(kind, 0), facts, up)
            cards.append(
                CardReport(
                    kind=kind,
                    description=kinds[kind].description,
                    address=address,
                    node=name,
                    pod=PodReport(namespace=holder.namespace, name=holder.name, ready=holder.ready) if holder else None,
                    state=state,
                    note=note,
                )
            )
    return tuple(cards)


def _card_state(index: int, address: str | None, expected: int, facts: HostFacts, up: bool) -> tuple[State, str]:
    if not up:
        return State.PLANNED, ""
    if facts.reason is not None:
        return State.DOWN, facts.reason
    if address is None:
        return State.DOWN, "the host does not see it"
    return (State.GOOD, "") if index < expected else (State.PARTIAL, "not in the site file")


def free_cards(
    site: Site, hypervisor: str, held: Iterable[CardReport], accelerators: Mapping[str, int], seen: Observation
) -> tuple[CardReport, ...]:
    """The cards of a hypervisor that none of its instances holds.

    Args:
        site: the model.
        hypervisor: its name.
        held: cards of the instances on it.
        accelerators: kind to number of cards in it.
        seen: whether the hypervisor is up.
    """
    taken = list(held)
    state = seen.cloud.hypervisors.get(hypervisor)
    reports: list[CardReport] = []
    addresses = known_cards(site, hypervisor)
    for kind, count in accelerators.items():
        of_kind = [card for card in taken if card.kind == kind]
        used = {card.address for card in of_kind}
        left = [a for a, of in addresses.items() if of == kind and a not in used]
        for index in range(max(0, count - len(of_kind))):
            reports.append(
                CardReport(
                    kind=kind,
                    description=site.accelerators[kind].description,
                    address=left[index] if index < len(left) else None,
                    node=None,
                    pod=None,
                    state=State.PLANNED
                    if seen.cloud.reason is not None
                    else (State.DOWN if state == "down" else State.GOOD),
                )
            )
    return tuple(reports)


def known_cards(site: Site, hypervisor: str) -> dict[str, str]:
    """PCI address to kind of a hypervisor's accelerators, where the provider knows them."""
    machines = site.cloud.hypervisors if site.cloud else ()
    return next((provider_of(site).pci_addresses(machine) for machine in machines if machine.name == hypervisor), {})
