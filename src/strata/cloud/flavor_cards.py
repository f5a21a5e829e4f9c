"""The cards that a flavor of nova requests, whoever made it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from strata.models.accelerator_catalogue import Accelerator

ALIAS = "pci_passthrough:alias"
"""Extra spec of flavors with PCI devices."""
RESOURCE_CLASS = "CUSTOM_PCI_"
"""Prefix of the resource class that nova gives PCI devices in placement, before vendor and product."""


def resource_class(card: Accelerator) -> str:
    """Resource class of a kind of card in placement."""
    return f"{RESOURCE_CLASS}{card.vendor_id}_{card.product_id}".upper()


def flavor_cards(
    extra_specs: Mapping[str, str], kinds: Iterable[Accelerator], aliases: Mapping[str, str]
) -> Counter[str]:
    """Cards that a flavor requests, by kind, from PCI aliases and resource classes of PCI devices.

    Args:
        extra_specs: of the flavor.
        kinds: those of the site; an alias of another name counts as itself.
        aliases: kind to the cloud's PCI alias, where that is not the kind's name.
    """
    kinds = list(kinds)
    by_alias = {aliases.get(card.kind, card.kind).lower(): card.kind for card in kinds}
    by_class = {resource_class(card): card.kind for card in kinds}
    counts: Counter[str] = Counter()
    for entry in filter(None, (part.strip() for part in extra_specs.get(ALIAS, "").split(","))):
        alias, _, count = entry.partition(":")
        counts[by_alias.get(alias.lower(), alias)] += int(count or 1)
    for key, value in extra_specs.items():
        resource, _, name = key.partition(":")
        if resource.startswith("resources") and name.upper() in by_class:
            counts[by_class[name.upper()]] += int(value)
    return counts
