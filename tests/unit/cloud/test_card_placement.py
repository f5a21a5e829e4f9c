"""When placement looks for cards, and which kind a check may ask it for."""

from __future__ import annotations

import pytest

from strata.cloud.card_placement import MOST_CARDS, cards_in_placement, countable_kind
from strata.models.cloud import Cloud
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site


def cloud(flavors: list[dict[str, int]], hypervisors: list[dict[str, int]]) -> Cloud:
    """Tacc's cloud with the accelerators of its flavors and hypervisors replaced."""
    model = load_site(find_site("tacc")).cloud
    assert model is not None
    changes = {
        field: tuple(pattern[0].model_copy(update={"accelerators": cards}) for cards in counts)
        for field, pattern, counts in (
            ("flavors", model.flavors, flavors),
            ("hypervisors", model.hypervisors, hypervisors),
        )
    }
    return model.model_copy(update=changes)


@pytest.mark.parametrize(
    ("flavors", "asked"),
    [
        ([{}], True),
        ([{"v100": MOST_CARDS}, {"t4": 1}], True),
        ([{"v100": MOST_CARDS - 1, "t4": 2}], False),
    ],
)
def test_the_largest_flavor_decides_whether_placement_is_asked(flavors: list[dict[str, int]], asked: bool) -> None:
    assert cards_in_placement(cloud(flavors, [])) is asked


@pytest.mark.parametrize(
    ("flavors", "hypervisors", "kind"),
    [
        ([{}], [{"v100": 2}], None),
        ([{"v100": 1}], [{"t4": 2}], None),
        ([{"v100": 1}], [{"v100": 2}, {"v100": MOST_CARDS}], None),
        ([{"v100": 1}], [{"v100": 2}, {"v100": MOST_CARDS - 1}], "v100"),
        ([{"v100": 1}, {"t4": 1}], [{"v100": 4}, {"t4": 2}], "t4"),
    ],
)
def test_the_kind_with_the_fewest_cards_on_a_host_is_the_one_to_ask_for(
    flavors: list[dict[str, int]], hypervisors: list[dict[str, int]], kind: str | None
) -> None:
    assert countable_kind(cloud(flavors, hypervisors)) == kind
