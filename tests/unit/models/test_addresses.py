"""Addresses are those that Keycloak stores: its EmailValidationUtil is the judge."""

from __future__ import annotations

import re

import pytest

from strata.models.types import EMAIL_PATTERN

RIGHT = (
    "ada@example.org",
    "a.b+c@sub.example.org",
    "O'Neill_1@x-y.example",
    "jürgen@münchen.example",
    f"{'a' * 64}@b.org",
)
WRONG = (
    "ada",
    "ada@",
    "@b.org",
    "ada@localhost",
    "a..b@c.org",
    ".a@b.org",
    "a.@b.org",
    "a@-x.org",
    "a@x-.org",
    "a@b..org",
    "a b@c.org",
    "a@b@c.org",
    f"{'a' * 65}@b.org",
    "a@b.org\n",
    "a\x1b@b.org",
    "<a@b.org>",
    "a,b@c.org",
)


@pytest.mark.parametrize("address", RIGHT)
def test_accepted(address: str) -> None:
    assert re.fullmatch(EMAIL_PATTERN[1:-1], address)


@pytest.mark.parametrize("address", WRONG)
def test_refused(address: str) -> None:
    assert not re.fullmatch(EMAIL_PATTERN[1:-1], address)
