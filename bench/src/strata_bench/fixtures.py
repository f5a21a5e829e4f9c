"""Fixtures that several folders of tests share; a conftest.py imports them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from strata_bench.services import PostgreSQL, find_postgresql, postgresql_cluster


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """A running PostgreSQL of the tests' own."""
    binaries = find_postgresql()
    if binaries is None:
        pytest.skip("no PostgreSQL server here (Debian package postgresql)")
    with postgresql_cluster(binaries) as cluster:
        yield cluster
