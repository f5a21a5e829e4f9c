"""Two runs at once on one site: the second is told who is at work."""

from __future__ import annotations

import subprocess

import pytest

from strata.engine.context import SiteContext
from strata.models import Site

from .healing import eventually, strata_line


@pytest.fixture(scope="module", autouse=True)
def lab_only(site: Site) -> None:
    """Other sites are not ours to disturb."""
    if site.cloud is None or site.cloud.deployment != "lab":
        pytest.skip(f"site {site.name} is no lab")


def test_two_runs_at_once(context: SiteContext) -> None:
    """The second is refused within a second or two, and names the first one's command, process and start."""
    with subprocess.Popen(
        strata_line(context, "up", "--layer", "cloud", "--no-verify"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as first:
        try:
            eventually(lambda: f'"pid": {first.pid}' in (context.paths.root / "lock").read_text(), 30, "the first runs")
            for command in (("up",), ("down",), ("destroy", "--yes")):
                second = subprocess.run(strata_line(context, *command), capture_output=True, text=True, check=False)
                assert second.returncode == 2
                assert f"`strata up {context.site.name}` (process {first.pid}, since " in second.stderr
            assert first.poll() is None, "the first must not notice"
            assert first.stderr is not None
            said = first.stderr.read()
            assert first.wait() == 0, said
        finally:
            first.kill()
