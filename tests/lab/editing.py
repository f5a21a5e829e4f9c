"""Edits a site file as an operator does, and brings the site up with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from strata.engine.context import SiteContext

SECONDS = 900
"""The longest that one `up` may take on a loaded machine."""


def strata(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command as an operator would, without a terminal.

    Args:
        arguments: of `strata`.
        environment: added to ours.
    """
    program = Path(sys.executable).parent / "strata"
    return subprocess.run(
        [str(program), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, **(environment or {})},
        check=False,
        timeout=SECONDS,
    )


def up(file: Path, *options: str, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Brings the site up as the file says; must succeed."""
    done = strata("up", str(file), "--no-verify", "--json", *options, environment=environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def edit(context: SiteContext, directory: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A copy of the site file with other content, and the files beside it."""
    directory.mkdir()
    for file in context.site_file.parent.iterdir():
        if file.is_file():
            shutil.copy(file, directory)
    content = yaml.safe_load(context.site_file.read_text())
    change(content)
    edited = directory / context.site_file.name
    edited.write_text(yaml.safe_dump(content, sort_keys=False))
    return edited
