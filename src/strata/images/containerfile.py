"""What a Containerfile declares about its build: the bases that it starts from, and whether it runs commands."""

from __future__ import annotations

import re
from pathlib import Path

from strata.errors import UserError
from strata.images.apt_sources import CODENAMES

BASES = {f"DEBIAN_{release}": release for release in CODENAMES}
"""Build argument to the Debian release of the pod base that it names."""
_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*\$\{?(\w+)\}?", re.MULTILINE | re.IGNORECASE)
_RUN = re.compile(r"^\s*RUN\s", re.MULTILINE | re.IGNORECASE)


def bases(text: str, file: Path) -> tuple[str, ...]:
    """Build arguments of the pod bases that a Containerfile starts from; the last is that of the image itself.

    Args:
        text: of the Containerfile.
        file: for messages.

    Raises:
        UserError: an argument names no pod base.
    """
    names = [match[1] for match in _FROM.finditer(text)]
    for name in names:
        if name not in BASES:
            known = " or ".join(BASES)
            raise UserError(
                f"{file}: FROM ${{{name}}}: {name} is not the name of a pod base",
                fix=f"start from {known}, for instance `ARG DEBIAN_13` and `FROM ${{DEBIAN_13}}`",
                see="an-image-cannot-be-built",
            )
    return tuple(names)


def runs_commands(text: str) -> bool:
    """Whether a build runs commands, which may need the network."""
    return _RUN.search(text) is not None
