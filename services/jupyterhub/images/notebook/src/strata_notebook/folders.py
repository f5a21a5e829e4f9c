"""Folders outside of the home, as JupyterLab's file browser and other members need them."""

from __future__ import annotations

import os
from pathlib import Path

FOLDERS = (Path("/shared"), Path("/datasets"))
UMASK = 0o002
"""The group of a shared folder may write what a server creates there. The home admits its user only."""


def prepare(home: Path, folders: tuple[Path, ...] = FOLDERS) -> None:
    """Links the folders that the server has from the home, unless something is there already."""
    os.umask(UMASK)
    for folder in folders:
        link = home / folder.name
        if folder.is_dir() and not os.path.lexists(link):
            link.symlink_to(folder)
