"""Paths of keys in a site file."""

from __future__ import annotations

import re

KeyPath = tuple[str | int, ...]
"""Keys, and numbers of list entries."""

INSTANCES: KeyPath = ("cloud", "instances")
MACHINES: KeyPath = ("hosts", "machines")
_PLAIN_KEY = re.compile(r"[!-~]{1,100}")
"""A key that can be printed as it is: no spaces, control characters, look-alikes, or megabytes."""


def dotted(path: KeyPath) -> str:
    """A path as people write it: cloud.flavors[0].memory."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
            continue
        shown = step if _PLAIN_KEY.fullmatch(step) else ascii(step[:100]) + ("…" if len(step) > 100 else "")
        text += f".{shown}" if text else shown
    return text
