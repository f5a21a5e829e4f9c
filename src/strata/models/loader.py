"""Reads a site file."""

from __future__ import annotations

from pathlib import Path

import yaml

from strata.models.site import Site


def load_site(path: Path) -> Site:
    """Reads and checks a site file."""
    return Site.model_validate(yaml.load(path.read_text(), Loader=yaml.CSafeLoader))  # noqa: S506
