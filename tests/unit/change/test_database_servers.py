"""Servers that replicate databases neither join nor leave; one becomes several."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.engine.changes.disruption import Approval, remember
from strata.engine.database_servers import require_same_servers
from strata.engine.runner import RunReport
from strata.engine.up import run_up
from strata.errors import UserError
from strata.layers import Layer
from strata.models.hosts import Machine
from strata.site.context import SiteContext
from strata.site.data_protection import ProtectedResources
from strata.site_file.inventories import find_site

THREE = ("database-1", "database-2", "database-3")
FIVE = (*THREE, "database-4", "database-5")
OTHERS = ("database-6", "database-7", "database-8")


@pytest.fixture
def context(state_directory: Path) -> SiteContext:
    loaded = SiteContext.load(find_site("metal"))
    loaded.paths.create()
    return loaded


def with_servers(context: SiteContext, names: tuple[str, ...]) -> SiteContext:
    """The site with these PostgreSQL servers."""
    hosts = context.site.hosts
    others = (m for m in hosts.machines if "postgresql" not in m.roles)
    servers = (Machine(name=n, address=f"198.18.13.{i}", roles=("postgresql",)) for i, n in enumerate(names, start=101))
    changed = hosts.model_copy(update={"machines": (*others, *servers)})
    return SiteContext(context.site.model_copy(update={"hosts": changed}), context.site_file, context.paths)


@pytest.mark.parametrize(
    ("before", "now"),
    [(THREE, FIVE), (FIVE, THREE), (THREE, THREE[:1]), (THREE, (*THREE[:2], "database-4"))],
)
def test_a_change_of_some_is_refused(context: SiteContext, before: tuple[str, ...], now: tuple[str, ...]) -> None:
    remember(with_servers(context, before), list(Layer))
    with pytest.raises(UserError) as error:
        require_same_servers(with_servers(context, now))
    assert f"site.yaml: roles: postgresql on {', '.join(now)}: " in str(error.value)
    assert f"give the role to {', '.join(before)} alone" in str(error.value.fix)


@pytest.mark.parametrize(
    ("before", "now"), [(THREE[:1], THREE), (THREE, THREE[::-1]), (THREE, OTHERS), (THREE, OTHERS[:1]), (THREE, ())]
)
def test_any_other_change_is_left_to_the_site_file(
    context: SiteContext, before: tuple[str, ...], now: tuple[str, ...]
) -> None:
    require_same_servers(with_servers(context, now))  # a first run
    remember(with_servers(context, before), list(Layer))
    require_same_servers(with_servers(context, now))


def test_up_refuses_it_before_anything_changes(context: SiteContext) -> None:
    def run(_: Approval) -> RunReport:
        raise AssertionError("a step ran")

    remember(with_servers(context, THREE), list(Layer))
    with pytest.raises(UserError, match="which change together"):
        run_up(with_servers(context, FIVE), list(Layer), remove=(), approval=Approval(), run=run, ask=None)
    assert ProtectedResources.load(context.paths) is None
