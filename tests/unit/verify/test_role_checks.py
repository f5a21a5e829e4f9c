"""Checks in roles' folders, whose path begins with the name of a package that Strata imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_checks_below_ansible_leave_the_package_of_that_name_alone(tmp_path: Path) -> None:
    file = tmp_path / "ansible" / "roles" / "relay" / "checks" / "test_relay.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "def test_relay() -> None:\n    from ansible.parsing.vault import VaultLib\n\n    assert VaultLib\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib -p strata.verify.plugin\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(file)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
