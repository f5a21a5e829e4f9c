"""Where a substitute takes the place of what is not available, and where that stops `up` before anything changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from strata.cli.lifecycle_choice import lifecycle_of
from strata.engine.up_steps import up_steps
from strata.layers import Layer, Step
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site_file.inventories import find_site
from strata.toolchain import ToolUnavailable
from strata.toolchain.release import Reachability


@pytest.fixture(autouse=True)
def offline(state_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, no mirror and no network."""
    monkeypatch.setenv("STRATA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("STRATA_MIRROR", raising=False)
    monkeypatch.setattr(Reachability, "_ask", lambda _, host: f"{host} cannot be reached")


def steps(site_file: Path) -> dict[str, Step]:
    context = SiteContext.load(site_file)
    return {step.name: step for step in up_steps(context, lifecycle_of(context), tuple(Layer))}


def test_a_real_site_needs_pulumis_own_plugin_before_anything_changes() -> None:
    by_name = steps(find_site("metal"))
    assert "platform tools" in by_name["keys"].after
    with pytest.raises(ToolUnavailable, match=r"pulumi-resource-kubernetes .* is not available") as refused:
        by_name["platform tools"].run(Silent())
    assert "download https://api.pulumi.com/releases/plugins/pulumi-resource-kubernetes-v" in str(refused.value.fix)
    assert "set allow_substitutes: true" in str(refused.value.fix)


def test_a_site_may_allow_substitutes_and_a_lab_needs_nothing_else(tmp_path: Path) -> None:
    copy = tmp_path / "metal"
    shutil.copytree(find_site("metal").parent, copy)
    file = copy / "site.yaml"
    file.write_text(f"{file.read_text()}allow_substitutes: true\n")
    done = steps(file)["platform tools"].run(Silent())
    assert (done.changed, done.detail) == (0, "substitute of pulumi-resource-kubernetes, which is not available")
    assert "platform tools" not in steps(find_site("lab"))
