"""What the Hub's API returns for a repository, for those of tenants: cards, trees, branches, commits."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

from hub_mirror import card_metadata
from hub_mirror.names import MAIN
from hub_mirror.published import Commit, File, Published

POINTER_SIZE = 134
"""Of git LFS, for most files."""
CHOSEN = ("pipeline_tag", "library_name")
"""Fields of a model's card that the API has beside it."""


def moment(value: datetime) -> str:
    """As the Hub writes it: 2026-01-02T03:04:05.000Z."""
    return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"


def card(record: Published, commit: Commit | None = None) -> dict[str, Any]:
    """Of the repository; with a commit, its files too."""
    metadata = record.card if commit is None else commit.card
    shown: dict[str, Any] = {
        "_id": f"{record.number:024x}",
        "id": record.repository.id,
        "author": record.tenant,
        "sha": commit.sha if commit else record.head,
        "createdAt": moment(record.created_at),
        "lastModified": moment(commit.created_at if commit else record.changed_at),
        "private": record.private,
        "gated": False,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
        "tags": card_metadata.tags(metadata, dataset=record.repository.kind == "datasets"),
    }
    if metadata:
        shown["cardData"] = dict(metadata)
    if record.repository.kind == "models":
        shown["modelId"] = record.repository.id
        shown |= {
            name: metadata[name] for name in ("pipeline_tag", "library_name") if isinstance(metadata.get(name), str)
        }
    if commit is not None:
        shown["siblings"] = [{"rfilename": path} for path in sorted(commit.files)]
        shown["usedStorage"] = sum({file.sha256: file.size for file in commit.files.values()}.values())
    return shown


def file_entry(path: str, file: File) -> dict[str, Any]:
    """One file of a tree."""
    entry: dict[str, Any] = {"type": "file", "oid": file.oid, "size": file.size, "path": path}
    if file.large:
        entry["lfs"] = {"oid": file.sha256, "size": file.size, "pointerSize": POINTER_SIZE}
    return entry


def _folder_entry(path: str) -> dict[str, Any]:
    oid = hashlib.sha1(path.encode(), usedforsecurity=False).hexdigest()
    return {"type": "directory", "oid": oid, "size": 0, "path": path}


def tree(commit: Commit, folder: str, *, recursive: bool) -> list[dict[str, Any]] | None:
    """What is in a folder, folders first; None: there is no such folder.

    Args:
        commit: with the files.
        folder: path; empty: the repository.
        recursive: whether what is in folders is listed too.
    """
    prefix = f"{folder}/" if folder else ""
    inside = {path: file for path, file in commit.files.items() if path.startswith(prefix)}
    if folder and not inside:
        return None
    folders: set[str] = set()
    for path in inside:
        parts = path.removeprefix(prefix).split("/")[:-1]
        names = [prefix + "/".join(parts[: length + 1]) for length in range(len(parts))]
        folders.update(names if recursive else names[:1])
    files = [path for path in inside if recursive or "/" not in path.removeprefix(prefix)]
    return [_folder_entry(path) for path in sorted(folders)] + [
        file_entry(path, inside[path]) for path in sorted(files)
    ]


def paths_info(commit: Commit, paths: list[str]) -> list[dict[str, Any]]:
    """Those of the paths that are there."""
    entries: list[dict[str, Any]] = []
    for path in dict.fromkeys(name.strip("/") for name in paths):
        if (file := commit.files.get(path)) is not None:
            entries.append(file_entry(path, file))
        elif any(other.startswith(f"{path}/") for other in commit.files):
            entries.append(_folder_entry(path))
    return entries


def branches(record: Published) -> dict[str, Any]:
    """Main alone."""
    main = {"name": MAIN, "ref": f"refs/heads/{MAIN}", "targetCommit": record.head}
    return {"branches": [main], "converts": [], "tags": [], "pullRequests": []}


def commit_entry(row: Any) -> dict[str, Any]:
    """One commit of the history."""
    authors = [{"user": row.author}]
    return {
        "id": row.sha,
        "title": row.title,
        "message": row.description,
        "date": moment(row.created_at),
        "authors": authors,
    }
