"""Program of the init container that downloads datasets into a server, by HTTPS and from S3. It gets its source by
`python3 -c`, so that it runs in each image with Python: standard library only, no imports from this package."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import re
import shutil
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import IO, Any
from xml.etree import ElementTree

CONNECTION_SECONDS = 10.0
"""For a connection, and between two parts of a response."""
PARALLEL = 16
PART = 2**20
OK = 200
MOST_OBJECTS, MOST_PAGES = 10_000, 1_000
"""Of a prefix on S3; a page has at most 1,000 objects."""
LONGEST_PAGE = 2**22
"""Bytes: 1,000 keys of 1,024 characters, escaped."""
PARSING = threading.Lock()
"""A hostile page of that size becomes 170 MiB of elements, and the container has 256 MiB: one at a time."""
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


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows none: a signed request is for the endpoint that the site or the tenant names."""

    def redirect_request(self, req: Any, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str) -> Any:  # noqa: ARG002  # urllib's
        """Never one."""
        raise UnreachableError(f"{code}: the endpoint redirects; register the bucket's own endpoint and region")


class _Source:
    """A server, and how much of a dataset it may still send."""

    def __init__(self, limits: dict[str, Any], redirects: urllib.request.HTTPRedirectHandler) -> None:
        tls = ssl.create_default_context()
        tls.load_verify_locations(cadata=limits["authorities"])
        self._opener = urllib.request.build_opener(redirects, urllib.request.HTTPSHandler(context=tls))
        self._limits, self._size = limits, 0

    def get(self, url: str, headers: Mapping[str, str]) -> Any:
        """The response with status 200.

        Raises:
            UnreachableError: another status.
        """
        request = urllib.request.Request(url, headers={"User-Agent": "strata-datasets", **headers})  # noqa: S310  # HTTP
        response = self._opener.open(request, timeout=min(CONNECTION_SECONDS, self._limits["seconds"]))
        if response.status != OK:
            response.close()
            raise UnreachableError(f"{response.status} {response.reason}")
        return response

    def expect(self, size: int) -> None:
        """Refuses more than the site allows, before it is downloaded."""
        if self._size + size > self._limits["bytes"]:
            raise UnreachableError(f"{self._size + size} bytes, and at most {self._limits['bytes']} are allowed")

    def in_time(self) -> None:
        """Ends a download that is late."""
        if time.monotonic() > self._limits["end"]:
            raise UnreachableError(f"not complete after {self._limits['seconds']} s")

    def copy(self, url: str, headers: Mapping[str, str], target: Path) -> str:
        """Writes a response into a new file; returns its SHA-256."""
        digest, size = hashlib.sha256(), 0
        with self.get(url, headers) as response, target.open("xb") as file:
            expected = response.headers.get("Content-Length")
            if expected is not None:
                self.expect(int(expected))
            # read1: what has arrived, so that a slow server does not outlast the time
            while part := response.read1(PART):
                size += len(part)
                self._size += len(part)
                if self._size > self._limits["bytes"]:
                    raise UnreachableError(f"more than {self._limits['bytes']} bytes")
                self.in_time()
                digest.update(part)
                file.write(part)
            if expected is not None and size != int(expected):
                raise UnreachableError(f"the connection ended after {size} of {expected} bytes")
        return digest.hexdigest()


class _Bucket:
    """A bucket of an S3 endpoint, path style.

    Args:
        s3: `endpoint`, `region`, `bucket`, and `keys`: names of two variables, or None for no login.
    """

    def __init__(self, s3: dict[str, Any]) -> None:
        self._url, self._region, self._keys = f"{s3['endpoint']}/{s3['bucket']}", s3["region"], None
        if s3["keys"] is not None:
            self._keys = tuple(os.environ.get(name, "") for name in s3["keys"])
            if not all(self._keys):
                raise UnreachableError("the site has no key for the bucket")

    def request(self, key: str = "", **query: str) -> tuple[str, dict[str, str]]:
        """URL and headers of a GET request: signature version 4, without a login none."""
        path = f"/{urllib.parse.quote(key, safe='/-_.~')}" if key else ""
        text = urllib.parse.urlencode(sorted(query.items()), quote_via=urllib.parse.quote, safe="-_.~")
        url = f"{self._url}{path}" + (f"?{text}" if text else "")
        return url, _signed(url, self._region, *self._keys) if self._keys else {}

    def objects(self, prefix: str, source: _Source) -> dict[str, int]:
        """Key to size of all objects below a prefix."""
        sizes: dict[str, int] = {}
        more: dict[str, str] = {}
        for _ in range(MOST_PAGES):
            source.in_time()
            url, headers = self.request(**{"list-type": "2", "prefix": prefix, **more})
            with source.get(url, headers) as response:
                text = response.read(LONGEST_PAGE + 1)
            if len(text) > LONGEST_PAGE or b"<!DOCTYPE" in text:
                raise UnreachableError("the list of objects is none of S3")
            entries, following = _page(text)
            for key, size in entries:
                if not key.startswith(prefix):
                    raise UnreachableError("the list of objects is none of S3")
                # an empty object for a folder
                if not key.endswith("/"):
                    sizes[key] = int(size)
            if len(sizes) > MOST_OBJECTS:
                raise UnreachableError(f"more than {MOST_OBJECTS} objects")
            if following is None:
                return sizes
            more = {"continuation-token": following}
        raise UnreachableError(f"a list of more than {MOST_PAGES} pages")


def _page(text: bytes) -> tuple[list[tuple[str, str]], str | None]:
    """Keys and sizes of a list's page, and the token of the next one; None: it is the last."""
    with PARSING:
        page = ElementTree.fromstring(text)  # noqa: S314  # without a document type, there are no entities
        entries = [
            (element.findtext("{*}Key", ""), element.findtext("{*}Size", "")) for element in page.findall("{*}Contents")
        ]
        truncated = page.findtext("{*}IsTruncated") == "true"
        return entries, page.findtext("{*}NextContinuationToken", "") if truncated else None


def _signed(url: str, region: str, access_key: str, secret_key: str) -> dict[str, str]:
    """Headers of a GET request with signature version 4 of Amazon."""
    parts, now = urllib.parse.urlsplit(url), time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    empty = hashlib.sha256(b"").hexdigest()
    headers = {"host": parts.netloc, "x-amz-content-sha256": empty, "x-amz-date": now}
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    names, scope = ";".join(headers), f"{now[:8]}/{region}/s3/aws4_request"
    canonical = "\n".join(("GET", parts.path, parts.query, lines, names, empty))
    text = "\n".join(("AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    key = f"AWS4{secret_key}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    credential = f"Credential={access_key}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    return {**headers, "Authorization": f"AWS4-HMAC-SHA256 {credential}"}


def _file(dataset: dict[str, Any], directory: Path, limits: dict[str, Any]) -> None:
    digest = _Source(limits, _NoDowngrade()).copy(dataset["source"], {}, directory / dataset["file"])
    _compare(dataset, digest)


def _objects(dataset: dict[str, Any], directory: Path, limits: dict[str, Any]) -> None:
    s3 = dataset["s3"]
    bucket, source, prefix = _Bucket(s3), _Source(limits, _NoRedirect()), s3["key"]
    if prefix and not prefix.endswith("/"):
        _compare(dataset, source.copy(*bucket.request(prefix), directory / dataset["file"]))
        return
    sizes = bucket.objects(prefix, source)
    if not sizes:
        raise UnreachableError("no object has the prefix")
    source.expect(sum(sizes.values()))
    for key in sorted(sizes):
        parts = key[len(prefix) :].split("/")
        if {"", ".", ".."} & set(parts):
            raise UnreachableError(f"the object {key[:100]!r} is not a file below a folder")
        target = directory.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        source.copy(*bucket.request(key), target)


def _compare(dataset: dict[str, Any], digest: str) -> None:
    if dataset["sha256"] not in (None, digest):
        raise UnreachableError(f"sha256 is {digest}, not the registered one")


def download(dataset: dict[str, Any], directory: Path, limits: dict[str, Any]) -> None:
    """Writes the files of a dataset into `directory`; all of them, or none.

    Args:
        dataset: `name`, `source`, `file`, `sha256` or None; `s3` if it is there.
        directory: exists.
        limits: `seconds` until `end` (monotonic), `bytes`, `authorities` (PEM, beside the public CAs).

    Raises:
        UnreachableError: no response, another status than 200, too much, too late, or another digest.
    """
    # no name of a dataset begins with a dot
    partial = directory.parent / f".{directory.name}"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir()
        (_objects if "s3" in dataset else _file)(dataset, partial, limits)
        for path in partial.iterdir():
            path.rename(directory / path.name)
    except urllib.error.HTTPError as error:
        raise UnreachableError(_refusal(error) if "s3" in dataset else f"{error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        late = isinstance(error.reason, TimeoutError)
        raise UnreachableError(LATE if late else str(error.reason)) from None
    except TimeoutError:
        raise UnreachableError(LATE) from None
    except ElementTree.ParseError:
        raise UnreachableError("the list of objects is none of S3") from None
    # a Content-Length that is not a number is a ValueError
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise UnreachableError(f"{type(error).__name__}: {error}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _refusal(error: urllib.error.HTTPError) -> str:
    """Status and S3's code; the rest of the response may name keys."""
    try:
        match = re.search(rb"<Code>([A-Za-z]{1,64})</Code>", error.read(2**16))
    except (OSError, http.client.HTTPException):
        match = None
    return f"{error.code} {match[1].decode()}" if match else f"{error.code}"


def main(given: dict[str, Any]) -> int:
    """Downloads all datasets in parallel, and writes the unreachable ones to `report`.

    Args:
        given: `datasets` (each with `required`, `unreachable`, the reason or empty, and what `download` takes),
            `directory`, `limits`, `report`.

    Returns:
        1 if a required dataset is unreachable, which keeps the server from starting; else 0.
    """
    seconds, directory = given["limits"]["seconds"], Path(given["directory"])
    limits = {**given["limits"], "end": time.monotonic() + seconds}

    def fetch(dataset: dict[str, Any]) -> str:
        folder = directory / dataset["name"]
        # of an earlier try, or what the user made of it before the node started the pod again
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(exist_ok=True)
        try:
            if dataset["unreachable"]:
                raise UnreachableError(dataset["unreachable"])
            download(dataset, folder, limits)
        except UnreachableError as error:
            return str(error)
        return ""

    pool = ThreadPoolExecutor(PARALLEL)
    running = {dataset["name"]: pool.submit(fetch, dataset) for dataset in given["datasets"]}
    # names that nothing resolves, and responses by the byte, outlast the limits of a connection
    wait(running.values(), timeout=seconds + 1)
    reasons = {name: future.result() if future.done() else LATE for name, future in running.items()}
    failed = {dataset["name"]: dataset for dataset in given["datasets"] if reasons[dataset["name"]]}
    for name, failure in failed.items():
        (directory / name / NOTE).write_text(f"{failure['source']}: {reasons[name]}\n")
    Path(given["report"]).write_text(report(failed, reasons))
    return int(any(dataset["required"] for dataset in failed.values()))


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
