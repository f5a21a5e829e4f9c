"""Lists and watches of Kubernetes' API, from inside the cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
PAGE = 500
"""Objects per answer."""
CONNECT_SECONDS, READ_SECONDS = 5.0, 30.0


class Expired(Exception):
    """The API server no longer has the version to resume from: list again."""


class Unavailable(Exception):
    """The API server does not respond, or refuses; the message gives the reason."""


@dataclass(frozen=True)
class Api:
    """Kubernetes' API server.

    Args:
        url: of it.
        token_file: read at each request, because the kubelet replaces the token; None sends none.
        ca_file: PEM file of its CA.
    """

    url: str
    token_file: Path | None = SERVICE_ACCOUNT / "token"
    ca_file: Path | None = SERVICE_ACCOUNT / "ca.crt"

    def list(self, path: str) -> tuple[list[dict[str, Any]], str]:
        """All objects below a path, and the version of the list.

        Raises:
            Expired, Unavailable.
        """
        items: list[dict[str, Any]] = []
        following = ""
        while True:
            with self._get(path, {"limit": str(PAGE), "continue": following}, READ_SECONDS) as answer:
                body = json.loads(answer.data)
            items += body["items"]
            following = body["metadata"].get("continue", "")
            if not following:
                return items, body["metadata"]["resourceVersion"]

    def watch(self, path: str, version: str, seconds: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """What happens below a path: ADDED, MODIFIED, DELETED or BOOKMARK with the object; ends after a time.

        Raises:
            Expired, Unavailable.
        """
        fields = {
            "watch": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
            "allowWatchBookmarks": "true",
        }
        with self._get(path, fields, seconds + READ_SECONDS) as answer:
            try:
                for line in _lines(answer):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        if event["object"].get("code") == 410:
                            raise Expired
                        raise Unavailable(str(event["object"].get("message")))
                    yield event["type"], event["object"]
            except urllib3.exceptions.HTTPError as error:
                raise Unavailable(f"{self.url}{path}: {error}") from None

    def _get(self, path: str, fields: dict[str, str], seconds: float) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": "application/json"}
        if self.token_file is not None:
            headers["Authorization"] = f"Bearer {self.token_file.read_text().strip()}"
        pool = urllib3.PoolManager(ca_certs=str(self.ca_file) if self.ca_file else None, retries=False)
        timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=seconds)
        try:
            answer = pool.request(
                "GET", self.url + path, fields=fields, headers=headers, timeout=timeout, preload_content=False
            )
        except urllib3.exceptions.HTTPError as error:
            raise Unavailable(f"{self.url}{path}: {error}") from None
        if answer.status == 410:
            raise Expired
        if answer.status != 200:
            raise Unavailable(f"{self.url}{path}: {answer.status} {answer.data[:300].decode(errors='replace')}")
        return answer


def _lines(answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """Lines of a body that comes in pieces."""
    rest = b""
    for piece in answer.stream(amt=None):
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line for line in lines if line)
    if rest.strip():
        yield rest
