"""Copies of a template, with other names in files and their paths."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path


def copy_template(source: Path, target: Path, words: Mapping[str, str]) -> None:
    """Writes the files of a template, with their modes.

    Args:
        source: folder of the template.
        target: folder that is written.
        words: each word of the template, and what replaces it, in this order.
    """
    for file in sorted(source.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            written = target / _replaced(str(file.relative_to(source)), words)
            written.parent.mkdir(parents=True, exist_ok=True)
            written.write_text(_replaced(file.read_text(), words))
            shutil.copymode(file, written)


def class_name(name: str) -> str:
    """A name with dashes or underscores as one of Python's classes."""
    return "".join(part.capitalize() for part in name.replace("-", "_").split("_"))


def _replaced(text: str, words: Mapping[str, str]) -> str:
    for before, after in words.items():
        text = text.replace(before, after)
    return text
