"""What the routes of volumes and snapshots have in common."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import HTTPException, Request

from pods.folders import Unsuitable
from pods.paths import parts_of
from pods.storage import Storage
from strata_http.envelope import ENVELOPE

STORAGE = ENVELOPE.described({507: "The site's storage is full."})
_FULL = (errno.ENOSPC, errno.EDQUOT)


def storage_of(request: Request) -> Storage:
    """Of the running service."""
    storage: Storage = request.app.state.storage
    return storage


def checked_parts(path: str, field: str) -> tuple[str, ...]:
    """A path's parts.

    Raises:
        HTTPException: 400.
    """
    try:
        return parts_of(path)
    except ValueError as error:
        raise HTTPException(400, f"{field}: {path[:100]!r} {error}") from None


@contextmanager
def answered(what: str) -> Iterator[None]:
    """Turns errors of files into answers.

    Args:
        what: that is done or read, for the text.

    Raises:
        HTTPException: 400, 403, 404, 503 or 507.
    """
    try:
        yield
    except Unsuitable as error:
        raise HTTPException(400, f"{what}: {error}") from None
    except FileNotFoundError:
        raise HTTPException(404, f"{what}: there is no such file") from None
    except IsADirectoryError:
        raise HTTPException(400, f"{what}: there is a folder by this name") from None
    except PermissionError:
        raise HTTPException(
            403,
            f"{what}: its owner in a pod keeps it from the volume's group; give the group access there: chmod g+rwX",
        ) from None
    except OSError as error:
        if error.errno in _FULL:
            raise HTTPException(507, f"{what}: the site's storage is full") from None
        text = f"{what}: the site's storage does not do it ({error.strerror}); try again"
        raise HTTPException(503, text, headers={"Retry-After": "10"}) from None
