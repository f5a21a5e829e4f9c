"""Where records come from: a JSON file or the Hugging Face Hub."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ml_hub.records import ModelRecord

MAXIMUM_SHOWN_ERRORS = 20
_log = logging.getLogger(__name__)


class CatalogueError(Exception):
    """The source cannot be read; the text names file, entry, field and value."""


def read_file(file: Path) -> list[ModelRecord]:
    """All records of a JSON file: a list of objects with the fields of `ModelRecord`.

    Raises:
        CatalogueError: unreadable, no JSON, a wrong value (all of them are named), or a duplicate id.
    """
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CatalogueError(f"{file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # no UTF-8, no JSON, a number or nesting beyond Python's limits
        raise CatalogueError(f"{file}: is no JSON: {error}") from error
    if not isinstance(entries, list):
        raise CatalogueError(f"{file}: must hold a list of models, holds {type(entries).__name__}")
    records: dict[str, ModelRecord] = {}
    problems: list[str] = []
    for number, entry in enumerate(entries):
        label = f"{file}: entry {number}"
        if isinstance(entry, dict) and "id" in entry:
            label += f" ({entry['id']})"
        try:
            record = ModelRecord.model_validate(entry)
        except ValidationError as error:
            problems += [f"{label}: {_shown(e)}" for e in error.errors()]
            continue
        if record.id in records:
            problems.append(f"{label}: duplicate id")
        records[record.id] = record
    if problems:
        more = len(problems) - MAXIMUM_SHOWN_ERRORS
        shown = problems[:MAXIMUM_SHOWN_ERRORS] + ([f"… and {more} more"] if more > 0 else [])
        raise CatalogueError("\n".join(shown))
    return list(records.values())


def read_hub(limit: int, endpoint: str | None = None, token: str | None = None) -> Iterator[ModelRecord]:
    """The most downloaded public models of the Hugging Face Hub, page by page; a model that cannot be kept is skipped.

    Args:
        limit: how many models.
        endpoint: URL of another hub; unset: HF_ENDPOINT or the public one.
        token: for a hub that wants one.

    Raises:
        CatalogueError: the hub does not answer or answers with an error.
    """
    # imported late: `serve` never needs it
    import httpx2
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    # its own handler would print each line twice
    logging.getLogger("huggingface_hub").handlers.clear()
    api = HfApi(endpoint=endpoint, token=token or False, library_name="ml-hub")
    seen: set[str] = set()
    skipped = 0
    try:
        for info in api.list_models(
            sort="downloads",
            limit=limit,
            expand=[
                "author", "cardData", "createdAt", "downloads", "lastModified",
                "library_name", "likes", "pipeline_tag", "tags",
            ],
        ):  # fmt: skip
            # downloads change while pages are read: a model may come on two of them
            if info.id not in seen:
                seen.add(info.id)
                try:
                    record = ModelRecord.from_hub(info)
                except ValidationError as error:
                    skipped += 1
                    why = "; ".join(_shown(e) for e in error.errors())
                    _log.warning("model %.80r is skipped: %s", info.id, why)
                    continue
                yield record
    except (HfHubHTTPError, httpx2.HTTPError, OSError) as error:
        raise CatalogueError(f"{api.endpoint}: does not answer as a hub does: {error}") from error
    if skipped:
        _log.warning("%d of %d models were skipped", skipped, len(seen))


def _shown(error: ErrorDetails) -> str:
    return f"{'.'.join(str(p) for p in error['loc']) or 'entry'}: {error['msg']}, is {error['input']!r:.80}"
