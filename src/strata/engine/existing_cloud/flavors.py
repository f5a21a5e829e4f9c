"""Flavors that a cloud already has, against the site file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from strata.cloud.flavor_cards import flavor_cards
from strata.engine.existing_cloud.objects import FoundFlavor
from strata.models.accelerator_catalogue import Accelerator
from strata.models.accelerator_kinds import spelled
from strata.models.compute import Flavor
from strata.models.finding import Finding
from strata.models.key_path import KeyPath
from strata.site_file.problems import suggestion


def check_flavor(
    flavor: Flavor, kinds: Mapping[str, Accelerator], known: Mapping[str, FoundFlavor], path: KeyPath
) -> Iterator[Finding]:
    """An existing flavor against the site file."""
    existing = known.get(flavor.name)
    if existing is None:
        why = "the cloud has no such flavor, or not for this project"
        yield Finding((*path, "name"), why, suggestion(flavor.name, sorted(known), "flavors"))
        return
    for key, desired, actual, unit in (
        ("vcpus", flavor.vcpus, existing.vcpus, ""),
        ("memory", flavor.memory.mebibytes, existing.memory_mib, " MiB"),
        ("disk", flavor.disk.gibibytes, existing.disk_gib, " GiB"),
    ):
        if desired != actual:
            yield Finding((*path, key), f"the cloud's flavor has {actual}{unit}", f"{key}: {actual}{unit}")
    yield from _cards(flavor, kinds, flavor_cards(existing.extra_specs, kinds.values(), flavor.aliases), path)


def _cards(
    flavor: Flavor, kinds: Mapping[str, Accelerator], actual: Mapping[str, int], path: KeyPath
) -> Iterator[Finding]:
    """The cards of an existing flavor, by kind or else by PCI alias, against the site file."""
    expected = {kind: count for kind, count in flavor.accelerators.items() if count}
    if expected == actual:
        return
    key_path = (*path, "accelerators") if flavor.accelerators else (*path, "name")
    if not actual:
        yield Finding(key_path, "the cloud's flavor has no PCI alias and no resource class of cards", "another flavor")
        return
    aliases = _kinds_of_aliases(expected, actual, kinds)
    listed = ", ".join(f"{name}: {count}" for name, count in sorted(actual.items()))
    own = ", ".join(f"{kind}: {alias}" for alias, kind in sorted(aliases.items()) if kind)
    cards = ", ".join(f"{aliases.get(name) or name}: {count}" for name, count in sorted(actual.items()))
    if unknown := sorted(alias for alias, kind in aliases.items() if kind is None):
        fix = f"the kind of its cards in accelerators, and aliases: {{KIND: {unknown[0]}}}, or another flavor"
    else:
        fix = f"accelerators: {{{cards}}}{f', aliases: {{{own}}}' if own else ''}, or another flavor"
    yield Finding(key_path, f"the cloud's flavor has the cards {listed}", fix)


def _kinds_of_aliases(
    expected: Mapping[str, int], actual: Mapping[str, int], kinds: Mapping[str, Accelerator]
) -> dict[str, str | None]:
    """The kind of each of the cloud's own PCI aliases; None: unknown.

    A site that lists as many cards of one kind states which it is, else the alias's spelling does.
    """
    missing = expected.keys() - actual.keys()
    descriptions = {kind: card.description for kind, card in kinds.items()}
    aliases: dict[str, str | None] = {}
    for alias, count in actual.items():
        if alias not in kinds:
            same = [kind for kind in missing if expected[kind] == count]
            kind = same[0] if len(same) == 1 else spelled(alias, descriptions)
            aliases[alias] = None if kind in actual or kind in aliases.values() else kind
    return aliases
