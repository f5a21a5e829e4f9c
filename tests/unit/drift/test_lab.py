"""Containers of a lab that do not run are drift."""

from __future__ import annotations

import pytest

from strata.site.context import SiteContext
from strata_lab import drift as lab


@pytest.mark.parametrize(("status", "expected"), [("running", []), ("exited", ["exited"]), (None, ["missing"])])
def test_the_network_agent_must_run(
    context: SiteContext, monkeypatch: pytest.MonkeyPatch, status: str | None, expected: list[str]
) -> None:
    monkeypatch.setattr(lab, "container_status", lambda name: status if name.endswith("-network") else "running")
    drift = lab.lab_drift(context.site)
    assert [d.found for d in drift] == expected
    assert all(d.object == "network agent: container strata-lab-network" for d in drift)
