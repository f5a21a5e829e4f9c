"""The real ansible-playbook on this machine, for tests of what roles write and refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strata.site.paths import REPOSITORY


def run_locally(
    playbook: Path,
    host: str,
    play: Mapping[str, Any],
    variables: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs one play, whatever its exit status.

    Args:
        playbook: file that is written.
        host: name that this machine has in the play.
        play: its content.
        variables: extra variables.
        environment: variables beside Ansible's.
    """
    playbook.write_text(json.dumps([play]))
    return subprocess.run(
        [
            str(Path(sys.executable).parent / "ansible-playbook"),
            *("--inventory", f"{host},", "--connection", "local", str(playbook)),
            *("--extra-vars", json.dumps(variables)),
        ],
        cwd=REPOSITORY,
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
            "ANSIBLE_INVENTORY_ENABLED": "host_list",
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            "ANSIBLE_NOCOLOR": "1",
            **(environment or {}),
        },
        capture_output=True,
        text=True,
        check=False,
    )
