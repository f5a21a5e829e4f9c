"""What a state directory knows of the bucket that it is a working copy of."""

from __future__ import annotations

import json
from dataclasses import dataclass

from strata.errors import UserError
from strata.site.paths import SitePaths

RECORD = "shared.json"


@dataclass(frozen=True)
class Record:
    """What a working copy knows of the bucket.

    Args:
        url: where the state is.
        copy: id of this working copy.
        generation: of the snapshot that it is based on; 0 before the first.
        digest: of that snapshot's files.
        pending: generation that is being uploaded, and then its digest.
        incomplete: a download was interrupted; the files are of no generation.
    """

    url: str
    copy: str
    generation: int = 0
    digest: str = ""
    pending: tuple[int, str] = (0, "")
    incomplete: bool = False


def read_record(paths: SitePaths) -> Record | None:
    """Returns what the state directory knows of a bucket, None for local state."""
    file = paths.root / RECORD
    if not file.exists():
        return None
    try:
        values = json.loads(file.read_text())
        return Record(**values | {"pending": tuple(values["pending"])})
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"{file} is damaged: {error}",
            fix=f"move {paths.root} elsewhere; the next command downloads the newest snapshot",
        ) from error


def require_local(paths: SitePaths) -> None:
    """Refuses a state directory that is the working copy of shared state.

    Raises:
        UserError: names where the state is.
    """
    record = read_record(paths)
    if record is not None:
        raise UserError(
            f"state of site {paths.site} was moved to {record.url}, and site.yaml has no state",
            fix="restore state in site.yaml; `strata state move --back` returns to the local directory",
        )
