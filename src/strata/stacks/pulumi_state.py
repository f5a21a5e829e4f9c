"""Where pulumi's file backend keeps what it knows of a stack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def project_name(program: str) -> str:
    """The project's name in the Pulumi.yaml of a program."""
    return f"strata-{program}"


def state_file(backend: Path, project: str, stack: str) -> Path:
    """The stack's state.

    Args:
        backend: directory of the file backend.
        project: its name.
        stack: the stack's name.
    """
    return backend / ".pulumi" / "stacks" / project / f"{stack}.json"


def lock_files(backend: Path, project: str, stack: str) -> list[Path]:
    """The stack's locks, one per pulumi at work on it, or killed at it. Arguments as of `state_file`."""
    return list((backend / ".pulumi" / "locks" / "organization" / project / stack).glob("*.json"))


def read_deployment(file: Path) -> dict[str, Any]:
    """The resources in a stack's state, which must exist; empty before its first run.

    Raises:
        ValueError: it is cut off.
    """
    deployment: dict[str, Any] | None = json.loads(file.read_text())["checkpoint"]["latest"]
    return deployment or {}
