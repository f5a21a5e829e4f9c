"""nova's and neutron's lab drivers, with the real nova and neutron and a podman that only records."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from strata.site.paths import REPOSITORY

HERE = Path(__file__).parent


def test_drivers(openstack_python: Path, rendered: Path) -> None:
    """All cases of nova_cases.py pass with OpenStack's Python."""
    environment = os.environ | {
        "STRATA_DRIVERS": str(REPOSITORY / "lab" / "openstack"),
        "STRATA_RENDERED": str(rendered),
        "STRATA_FAKE_PODMAN": str(HERE / "fake_podman.py"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    # not below the repository: a package of OpenStack may have tests of its own by that name
    tests = REPOSITORY / "tests"
    command = [str(openstack_python), "-m", ".".join((*HERE.relative_to(tests).parts, "nova_cases"))]
    done = subprocess.run(command, cwd=tests, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    # unittest passes over what it cannot find
    assert re.search(r"^Ran (3[5-9]|[4-9][0-9]) tests", done.stderr, re.MULTILINE), done.stderr[-200:]


def test_patch_is_applied(openstack_python: Path) -> None:
    """RPC replies are polled every 10 ms in the installed oslo.messaging."""
    code = "import oslo_messaging._drivers.amqpdriver as d, inspect; print(inspect.getsource(d.ReplyWaiters.get))"
    source = subprocess.run([str(openstack_python), "-c", code], capture_output=True, text=True, check=True).stdout
    assert "time.sleep(0.01)" in source


def test_drivers_are_typed() -> None:
    """mypy --strict finds nothing in the drivers; nova and neutron themselves ship no types."""
    sources = REPOSITORY / "lab" / "openstack" / "src"
    command = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--config-file", os.devnull]
    command += ["--cache-dir", os.devnull, "-p", "nova_virt_lab", "-p", "strata_openstack_lab"]
    environment = os.environ | {"MYPYPATH": str(sources)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
