"""Where records come from: a JSON file or the Hugging Face Hub."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ml_hub.records import KINDS, DatasetRecord, ModelRecord, Record, entries

MAXIMUM_SHOWN_ERRORS = 20
_log = logging.getLogger(__name__)


class CatalogueError(Exception):
    """The source cannot be read; the text names file, entry, field and value."""


def read_file(file: Path) -> dict[str, list[Record]]:
    """All records of a JSON file, by kind: {"models": […], "datasets": […]}, or a list of models alone.

    Raises:
        CatalogueError: unreadable, no JSON, a wrong value (all of them are named), or a duplicate id.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CatalogueError(f"{file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # no UTF-8, no JSON, a number or nesting beyond Python's limits
        raise CatalogueError(f"{file}: is not JSON: {error}") from error
    try:
        lists = entries(content)
    except ValueError as error:
        raise CatalogueError(f"{file}: {error}") from error
    problems: list[str] = []
    by_kind = {kind: _records(file, kind, lists[kind], problems) for kind in KINDS}
    if problems:
        more = len(problems) - MAXIMUM_SHOWN_ERRORS
        shown = problems[:MAXIMUM_SHOWN_ERRORS] + ([f"… and {more} more"] if more > 0 else [])
        raise CatalogueError("\n".join(shown))
    return by_kind


def _records(file: Path, kind: str, listed: list[object], problems: list[str]) -> list[Record]:
    """Of one list of the file; adds what is wrong to the problems."""
    records: dict[str, Record] = {}
    for number, entry in enumerate(listed):
        label = f"{file}: {kind}: entry {number}"
        if isinstance(entry, dict) and "id" in entry:
            label += f" ({entry['id']})"
        try:
            record = KINDS[kind].model_validate(entry)
        except ValidationError as error:
            problems += [f"{label}: {_shown(e)}" for e in error.errors()]
            continue
        if record.id in records:
            problems.append(f"{label}: duplicate id")
        records[record.id] = record
    return list(records.values())


def read_hub(limit: int, endpoint: str | None = None, token: str | None = None) -> dict[str, Iterator[Record]]:
    """The most downloaded public models and datasets of the Hugging Face Hub, page by page as they are iterated.

    What cannot be stored is skipped.

    Args:
        limit: how many models, and how many datasets.
        endpoint: URL of another hub; unset: HF_ENDPOINT or the public one.
        token: for a hub that wants one.

    Returns:
        Records by kind; iterating them raises CatalogueError if the hub does not respond, or responds with an error.
    """
    from huggingface_hub import HfApi  # noqa: PLC0415  # `serve` never needs it

    # its own handler would print each line twice
    logging.getLogger("huggingface_hub").handlers.clear()
    api = HfApi(endpoint=endpoint, token=token or False, library_name="ml-hub")
    models = api.list_models(
        sort="downloads",
        limit=limit,
        expand=[
            "author", "cardData", "createdAt", "disabled", "downloads", "gated", "lastModified",
            "library_name", "likes", "pipeline_tag", "private", "tags",
        ],
    )  # fmt: skip
    datasets = api.list_datasets(
        sort="downloads",
        limit=limit,
        expand=[
            "author", "cardData", "citation", "createdAt", "description", "disabled", "downloads", "gated",
            "lastModified", "likes", "paperswithcode_id", "private", "tags",
        ],
    )  # fmt: skip
    return {
        "models": _listed(api.endpoint, models, ModelRecord),
        "datasets": _listed(api.endpoint, datasets, DatasetRecord),
    }


def _listed(endpoint: str, infos: Iterable[Any], record: type[ModelRecord] | type[DatasetRecord]) -> Iterator[Record]:
    import httpx2  # noqa: PLC0415  # `serve` never needs it
    from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415  # `serve` never needs it

    seen: set[str] = set()
    skipped = 0
    try:
        for info in infos:
            # downloads change while pages are read: one may come on two of them
            if info.id in seen:
                continue
            seen.add(info.id)
            try:
                entry = record.from_hub(info)
            except ValidationError as error:
                skipped += 1
                why = "; ".join(_shown(e) for e in error.errors())
                _log.warning("%.80r is skipped: %s", info.id, why)
                continue
            yield entry
    except (HfHubHTTPError, httpx2.HTTPError, OSError) as error:
        raise CatalogueError(f"{endpoint}: does not respond as a hub does: {error}") from error
    if skipped:
        _log.warning("%d of %d were skipped", skipped, len(seen))


def _shown(error: ErrorDetails) -> str:
    return f"{'.'.join(str(p) for p in error['loc']) or 'entry'}: {error['msg']}, is {error['input']!r:.80}"
