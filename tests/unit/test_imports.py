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
