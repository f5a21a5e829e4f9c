"""Chromium, once for all pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from strata_bench.browser import Browser, browser


@pytest.fixture(scope="session")
def window() -> Iterator[Browser]:
    """A browser; scripts/test installs it."""
    with browser() as opened:
        yield opened
