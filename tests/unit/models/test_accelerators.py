"""What is taken for another spelling of a kind: never another card."""

from __future__ import annotations

import pytest

from strata.models.accelerator_catalogue import CATALOGUE
from strata.models.accelerator_kinds import spelled


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("V100", "v100"),
        ("nvidia-tesla-v100-pcie-16gb", "v100"),
        ("V100_32GB", "v100-32gb"),
        ("v100-pcie-32gb", "v100-32gb"),
        ("V100S", "v100s"),
        ("Tesla V100S", "v100s"),
        ("rtx-2080-ti", "rtx2080ti"),
        ("a100-40gb", "a100"),
        ("a100-80gb-pcie", "a100-80gb"),
        ("alveo-u50", "u50"),
        ("nvidia-gpu-t4", "t4"),
    ],
)
def test_another_spelling(word: str, kind: str) -> None:
    assert spelled(word) == kind


@pytest.mark.parametrize(
    "word", ["v10", "v1000", "v100-sxm3", "v100t", "a10", "a800", "h20", "l4s", "u55c", "tesla", "", "gpu"]
)
def test_another_card(word: str) -> None:
    assert spelled(word) is None


def test_each_kind_is_itself() -> None:
    assert {kind: spelled(kind) for kind in CATALOGUE} == {kind: kind for kind in CATALOGUE}
