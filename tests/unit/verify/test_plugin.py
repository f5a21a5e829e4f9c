"""The plugin beside pytest-xdist: what asks for the running site must not run on two workers at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest

@pytest.fixture
def site(context):
    return context

@pytest.mark.parametrize("number", range(8))
def test_of_the_site(number, site):
    pass

@pytest.mark.parametrize("number", range(8))
def test_of_nothing(number):
    pass

class TestOwn:
    @pytest.fixture
    def context(self):
        return 2

    def test_of_another(self, context):
        assert context == 2
"""
A_SITE = """
from types import SimpleNamespace
from strata.verify import plugin

plugin.find_site = str
plugin.SiteContext = SimpleNamespace(load=lambda file: SimpleNamespace(cloud_outputs=file))
"""


def test_whatever_asks_for_the_site_runs_on_one_worker(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(A_SITE)
    line = [
        "-p",
        "xdist",
        "-p",
        "strata.verify.plugin",
        "-p",
        "strata_bench.fixtures",
        "--numprocesses=2",
        "--dist=loadgroup",
        "-v",
        "-c",
        "/dev/null",
        str(tmp_path),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *line],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=tmp_path,
        # what this run was reported is not for that one, and other plugins take longer to load than the tests
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ran = [line.split() for line in done.stdout.splitlines() if " PASSED " in line]
    of_the_site = [words for words in ran if "test_of_the_site" in words[-1]]
    assert len(of_the_site) == 8
    assert all(words[-1].endswith("@site") for words in of_the_site), of_the_site
    assert len({words[0] for words in of_the_site}) == 1
    assert len([words for words in ran if words[-1].endswith("@site")]) == 8, (
        "a fixture `context` of its own is not a site"
    )
