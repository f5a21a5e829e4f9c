"""What commands import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


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


def loaded(program: str, *packages: str) -> set[str]:
    """Modules of the packages that a program has loaded at its end."""
    end = "\nimport sys\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program + end], capture_output=True, text=True, check=True)
    modules = done.stderr.splitlines()[-1].split()
    assert "strata" in modules
    return {name for name in modules if any(f"{name}.".startswith(f"{package}.") for package in packages)}


def test_help_loads_no_models() -> None:
    program = """
from strata.cli.main import app
app(["--help"], standalone_mode=False)
"""
    assert loaded(program, "pydantic", "strata.models", "strata.catalogue") == set()


def test_the_site_model_loads_no_catalogue() -> None:
    assert loaded("import strata.models.site", "strata.catalogue", "strata.site_file") == set()
