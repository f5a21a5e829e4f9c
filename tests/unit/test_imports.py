"""Each module below the engine can be the first that a program imports: no circle breaks it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from strata.site.paths import REPOSITORY

PACKAGES = ("catalogue", "cloud", "inventory", "models", "platform", "site", "toolchain")
PROGRAM = """
import importlib, json, sys
broken, done = {}, set()
for name in json.load(sys.stdin):
    if name in done:
        continue
    for loaded in [m for m in sys.modules if m.partition(".")[0] in ("strata", "strata_services")]:
        del sys.modules[loaded]
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        broken[name] = str(error)
        continue
    # what a package loads by itself: imported first, it would run the package first, in the same steps
    if hasattr(module, "__path__"):
        done.update(m for m in sys.modules if m.startswith(name + "."))
print(json.dumps(broken))
"""


def test_status_does_not_load_pytest(tmp_path: Path) -> None:
    program = """
import sys
from strata.cli.main import app
app(["status", "lab", "--json"], standalone_mode=False)
print("pytest" in sys.modules, file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"STRATA_STATE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.splitlines()[-1:] == ["False"], done.stderr


@pytest.mark.nightly
def test_any_module_can_come_first() -> None:
    source = REPOSITORY / "src"
    files = [file for package in PACKAGES for file in sorted((source / "strata" / package).rglob("*.py"))]
    names = [
        ".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        for file in files
        if "template" not in file.parts
    ]
    assert len(names) > 80
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=json.dumps(names), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == {}
