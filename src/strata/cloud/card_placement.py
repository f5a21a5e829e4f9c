"""How placement hands out cards: the figures with which a host full of cards gets an answer."""

from __future__ import annotations

from strata.models.cloud import Cloud

MOST_CANDIDATES = 1000
"""As many as nova asks for (max_placement_results)."""
MOST_CARDS = 6
"""Of an instance: placement tries the cards of a host in every order, and takes minutes for seven."""


def cards_in_placement(cloud: Cloud) -> bool:
    """Whether nova asks placement for the cards of its flavors; otherwise its own filter alone finds the host."""
    return max((sum(flavor.accelerators.values()) for flavor in cloud.flavors), default=0) <= MOST_CARDS


def countable_kind(cloud: Cloud) -> str | None:
    """The kind in flavors of which a hypervisor has the fewest, if placement can look for one more than that."""
    asked = {kind for flavor in cloud.flavors for kind, count in flavor.accelerators.items() if count}
    most = {kind: max((host.accelerators.get(kind, 0) for host in cloud.hypervisors), default=0) for kind in asked}
    kind = min((kind for kind in sorted(most) if most[kind]), key=lambda kind: most[kind], default=None)
    return kind if kind is not None and most[kind] < MOST_CARDS else None
