"""Edits a site file as an operator does."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from strata.site.context import SiteContext


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
