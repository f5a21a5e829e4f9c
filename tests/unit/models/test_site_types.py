"""Sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.models.types import MAXIMUM_BYTES, Size

counts = st.integers(min_value=0, max_value=MAXIMUM_BYTES)


@given(counts)
def test_size_survives_its_text(count: int) -> None:
    assert Size.parse(str(Size(count))) == Size(count)


@given(st.integers(min_value=1, max_value=4096), st.sampled_from(list(Size.units)))
def test_size_counts_its_unit(number: int, unit: str) -> None:
    assert Size.parse(f"{number} {unit}").bytes == number * Size.units[unit]


@given(st.text(max_size=20))
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        size = Size.parse(text)
    except ValueError:
        return
    assert Size.parse(str(size)) == size


@pytest.mark.parametrize(
    ("text", "expected"),
    [("32 GiB", 32 * 2**30), ("1024 MiB", 2**30), ("1 TiB", 2**40), ("7B", 7)],
)
def test_sizes(text: str, expected: int) -> None:
    assert Size.parse(text).bytes == expected


@pytest.mark.parametrize(
    "text", ["", "GiB", "1.5 GiB", "-1 GiB", "1 GB", "1  GiB", "1 gib", "١ GiB", "01 GiB", "1 GiB\n"]
)
def test_refused(text: str) -> None:
    with pytest.raises(ValueError, match="whole number"):
        Size.parse(text)


def test_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="at most"):
        Size.parse("9999999999999999999 PiB")


def test_units_are_rounded_up() -> None:
    size = Size(2**30 + 1)
    assert size.gibibytes == 2
    assert size.mebibytes == 1025


def test_shortest_exact_text() -> None:
    assert str(Size(1536 * 2**20)) == "1536 MiB"
    assert str(Size(2**40)) == "1 TiB"
    assert str(Size(0)) == "0 B"
