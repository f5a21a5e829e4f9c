"""What the commands do with clouds, where it differs by who runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strata.cli.lifecycle_choice import lifecycle_of
from strata.errors import UserError
from strata.layers import Layer
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site_file.inventories import find_site
from strata.stacks import pulumi
from strata.stacks.events import Events

NOVA = "Invalid request: 1b2c is not a valid project."
"""As the program's error quotes it, once keystone has another project of that name."""


def test_the_platform_of_an_existing_cloud_is_compared_once_it_has_a_cluster(state_directory: Path) -> None:
    """The cloud itself was there before the first `up`."""
    context = SiteContext.load(find_site("campus"))
    lifecycle = lifecycle_of(context)
    assert [layer for layer in Layer if not lifecycle.is_comparable(layer)] == [Layer.PLATFORM]
    context.paths.create()
    context.paths.kubeconfig.touch()
    assert all(map(lifecycle.is_comparable, Layer))


@pytest.mark.parametrize(("site", "again"), [("lab", True), ("tacc", False)])
def test_the_program_starts_over_in_a_lab_that_was_created_again(
    site: str, again: bool, state_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = SiteContext.load(find_site(site))
    calls: list[str] = []

    def operate(_: pulumi.Run, *arguments: str) -> tuple[Events, float]:
        calls.append(arguments[0])
        if len(calls) == 1:
            raise UserError(NOVA, fix="fix it")
        return Events(Silent()), 0.0

    def command(_: pulumi.Run, *arguments: str, **_options: Any) -> str:
        calls.append(" ".join(arguments[:2]))
        return "{}"

    monkeypatch.setattr(pulumi.Run, "operate", operate)
    monkeypatch.setattr(pulumi.Run, "command", command)
    monkeypatch.setattr(pulumi.Run, "prepare", lambda _: None)
    recreated = lifecycle_of(context).cloud_recreated

    def up() -> None:
        pulumi.up("cloud", context.site, context.paths, Silent(), recreated=recreated)

    if again:
        up()
        assert calls == ["up", "stack rm", "up", "stack output"]
    else:
        with pytest.raises(UserError, match="not a valid project"):
            up()
        assert calls == ["up"]
