"""Names of repositories, files and addresses of a Hugging Face hub."""

from __future__ import annotations

import re
from typing import TypeGuard
from urllib.parse import quote

REVISION = "main"
LONGEST_FILE_NAME = 1024
_PART = r"(?!\.)[A-Za-z0-9_.-]{1,96}(?<!\.)"
_REPOSITORY = re.compile(rf"{_PART}(/{_PART})?")
_FOLDERS = {"models": "", "datasets": "datasets/"}


def is_repository(name: str) -> bool:
    """Whether a hub may have a repository of that name; no other is asked for, so no name leaves its place in a URL."""
    return _REPOSITORY.fullmatch(name) is not None and ".." not in name


def is_file(name: object) -> TypeGuard[str]:
    """Whether a repository may hold a file of that name, below its own folder."""
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_FILE_NAME or not name.isprintable():
        return False
    return "\\" not in name and not {"", ".", ".."} & set(name.split("/"))


def info_path(kind: str, repository: str) -> str:
    """Below the hub's URL, of what it returns for a repository.

    Args:
        kind: models or datasets.
        repository: its name; `is_repository` holds.
    """
    return f"api/{kind}/{repository}"


def tree_path(kind: str, repository: str) -> str:
    """Below the hub's URL, of the list of a repository's files with their sizes.

    Args:
        kind: models or datasets.
        repository: its name; `is_repository` holds.
    """
    return f"api/{kind}/{repository}/tree/{REVISION}?recursive=true"


def file_path(kind: str, repository: str, file: str, revision: str = REVISION) -> str:
    """Below the hub's URL, of a file.

    Args:
        kind: models or datasets.
        repository: its name; `is_repository` holds.
        file: its name; `is_file` holds.
        revision: branch, tag or commit.
    """
    return f"{_FOLDERS[kind]}{repository}/resolve/{quote(revision, safe='')}/{quote(file)}"
