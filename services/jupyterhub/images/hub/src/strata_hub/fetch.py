"""Program of the init container that downloads datasets into a server. It gets its source by `python3 -c`, so that it
runs in each image with Python: standard library only, no imports from this package."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import IO, Any

CONNECTION_SECONDS = 10.0
"""For a connection, and between two parts of a response."""
PARALLEL = 16
PART = 2**20
OK = 200
LONGEST_REASON, LONGEST_REPORT = 200, 4096
"""Characters; Kubernetes cuts a container's report."""
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
    seconds, directory = given["limits"]["seconds"], Path(given["directory"])
    limits = {**given["limits"], "end": time.monotonic() + seconds}

    def fetch(dataset: dict[str, Any]) -> str:
        folder = directory / dataset["name"]
        folder.mkdir(exist_ok=True)
        # of an earlier try
        (folder / NOTE).unlink(missing_ok=True)
        try:
            download(dataset, folder, limits)
        except UnreachableError as error:
            return str(error)
        return ""

    pool = ThreadPoolExecutor(PARALLEL)
    running = {one["name"]: pool.submit(fetch, one) for one in given["datasets"]}
    # names that nothing resolves, and responses by the byte, outlast the limits of a connection
    wait(running.values(), timeout=seconds + 1)
    reasons = {name: future.result() if future.done() else LATE for name, future in running.items()}
    failed = {one["name"]: one for one in given["datasets"] if reasons[one["name"]]}
    for name, one in failed.items():
        (directory / name / NOTE).write_text(f"{one['source']}: {reasons[name]}\n")
    Path(given["report"]).write_text(report(failed, reasons))
    return int(any(one["required"] for one in failed.values()))


def report(failed: Mapping[str, Mapping[str, Any]], reasons: Mapping[str, str]) -> str:
    """JSON for the hub, as long as a container's report may be.

    Args:
        failed: datasets by name.
        reasons: by name.
    """
    longest = LONGEST_REASON
    while True:
        entries = [{"name": n, "required": d["required"], "reason": reasons[n][:longest]} for n, d in failed.items()]
        text = json.dumps(entries)
        if len(text) <= LONGEST_REPORT:
            return text
        longest -= 10


if __name__ == "__main__":
    # without waiting for downloads that are late
    os._exit(main(json.loads(os.environ["DATASETS"])))
