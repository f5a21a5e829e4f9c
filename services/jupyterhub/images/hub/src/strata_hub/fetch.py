"""Program of the init container that downloads datasets into a server. It gets its source by `python3 -c`, so that it
runs in each image with Python: standard library only, no imports from this package."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

CONNECTION_SECONDS = 10.0
"""For a connection, and between two parts of a response."""
PARALLEL = 16
PART = 2**20
OK = 200
LONGEST_REASON = 150
"""Kubernetes cuts the reports of all containers of a pod at 12 KiB, and of one at 4 KiB."""
LATE = "no response in time"
NOTE = "UNREACHABLE.txt"
"""In the folder of a dataset that is not there."""


class UnreachableError(Exception):
    """A dataset that the server does not get, and why."""


class _NoDowngrade(urllib.request.HTTPRedirectHandler):
    """Follows redirects to HTTPS only."""

    def redirect_request(self, req: Any, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str) -> Any:
        """None of another scheme."""
        if not newurl.startswith("https://"):
            raise UnreachableError(f"redirects to {newurl.partition(':')[0]}, not to https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def download(dataset: dict[str, Any], directory: Path, limits: dict[str, Any]) -> None:
    """Writes the file of a dataset below `directory`.

    Args:
        dataset: `source`, `file`, `sha256` or None.
        directory: exists.
        limits: `seconds` until `end` (monotonic), `bytes`, `authorities` (PEM, beside the public CAs).

    Raises:
        UnreachableError: no response, another status than 200, too much, too late, or another digest.
    """
    tls = ssl.create_default_context()
    if limits["authorities"]:
        tls.load_verify_locations(cadata=limits["authorities"])
    opener = urllib.request.build_opener(_NoDowngrade, urllib.request.HTTPSHandler(context=tls))
    request = urllib.request.Request(dataset["source"], headers={"User-Agent": "strata-datasets"})  # noqa: S310  # https
    digest, size, partial = hashlib.sha256(), 0, directory / f".{dataset['file']}"
    try:
        with (
            opener.open(request, timeout=min(CONNECTION_SECONDS, limits["seconds"])) as response,
            partial.open("wb") as file,
        ):
            if response.status != OK:
                raise UnreachableError(f"{response.status} {response.reason}")
            expected = response.headers.get("Content-Length")
            if expected is not None and int(expected) > limits["bytes"]:
                raise UnreachableError(f"{expected} bytes, and at most {limits['bytes']} are allowed")
            # read1: what has arrived, so that a slow server does not outlast the time
            while part := response.read1(PART):
                size += len(part)
                if size > limits["bytes"]:
                    raise UnreachableError(f"more than {limits['bytes']} bytes")
                if time.monotonic() > limits["end"]:
                    raise UnreachableError(f"not complete after {limits['seconds']} s")
                digest.update(part)
                file.write(part)
            if expected is not None and size != int(expected):
                raise UnreachableError(f"the connection ended after {size} of {expected} bytes")
        if dataset["sha256"] not in (None, digest.hexdigest()):
            raise UnreachableError(f"sha256 is {digest.hexdigest()}, not the registered one")
        partial.rename(directory / dataset["file"])
    except urllib.error.HTTPError as error:
        raise UnreachableError(f"{error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        late = isinstance(error.reason, TimeoutError)
        raise UnreachableError(LATE if late else str(error.reason)) from None
    except TimeoutError:
        raise UnreachableError(LATE) from None
    # a Content-Length that is no number is a ValueError
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise UnreachableError(f"{type(error).__name__}: {error}") from None
    finally:
        partial.unlink(missing_ok=True)


def main(given: dict[str, Any]) -> int:
    """Downloads all datasets in parallel, and writes the unreachable ones to `report`.

    Args:
        given: `datasets` (each with `name`, `required` and what `download` takes), `directory`, `limits`, `report`.

    Returns:
        1 if a required dataset is unreachable, which keeps the server from starting; else 0.
    """

    limits = {**given["limits"], "end": time.monotonic() + given["limits"]["seconds"]}

    def fetch(dataset: dict[str, Any]) -> str | None:
        directory = Path(given["directory"], dataset["name"])
        directory.mkdir(exist_ok=True)
        # of an earlier try
        (directory / NOTE).unlink(missing_ok=True)
        try:
            download(dataset, directory, limits)
        except UnreachableError as error:
            reason = str(error)[:LONGEST_REASON]
            (directory / NOTE).write_text(f"{dataset['source']}: {reason}\n")
            return reason
        return None

    datasets = given["datasets"]
    with ThreadPoolExecutor(PARALLEL) as pool:
        reasons = list(pool.map(fetch, datasets))
    failed = [(one, reason) for one, reason in zip(datasets, reasons, strict=True) if reason is not None]
    report = [{"name": one["name"], "required": one["required"], "reason": reason} for one, reason in failed]
    Path(given["report"]).write_text(json.dumps(report))
    return int(any(one["required"] for one, _ in failed))


if __name__ == "__main__":
    sys.exit(main(json.loads(os.environ["DATASETS"])))
