"""Reads from a Hugging Face hub, anonymously and in bounds."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2

from ml_hub.repositories import file_path, info_path, is_file, tree_path
from ml_hub.settings import Settings
from ml_hub.untrusted import read_json, read_text

LARGEST = {"info": 4 * 2**20, "card": 2**20, "sizes": 4 * 2**20}
"""Bytes that are read."""
REDIRECTS = 3
README = "README.md"
CONNECTIONS = 8
"""At once."""
_NONE = {400, 401, 404, 410}
"""For a repository that does not exist, a hub has 401 too: it does not reveal which private ones exist."""


class EndpointUnavailable(Exception):
    """The hub did not respond, or not as a hub does; the message names it."""


class AccessNeeded(Exception):
    """The hub gives it only to accounts that were granted access."""


class Endpoint:
    """One hub. After a failure it is left alone for a while, so that requests need not wait for it.

    Args:
        settings: with a `hub_endpoint`.
    """

    def __init__(self, settings: Settings) -> None:
        self._url = f"{settings.hub_endpoint}".rstrip("/") + "/"
        self._seconds = settings.hub_timeout_seconds
        self._pause = settings.hub_pause_seconds
        self._paused_until = 0.0
        self._tls = ssl.create_default_context(cafile=settings.hub_ca_file)
        self._turns = asyncio.Semaphore(CONNECTIONS)

    async def info(self, kind: str, repository: str) -> dict[str, Any] | None:
        """What the hub returns for a repository; None: it has none of that name.

        Raises:
            EndpointUnavailable: it did not respond as a hub does.
        """
        body = await self._read_json(info_path(kind, repository), LARGEST["info"])
        if body is not None and not isinstance(body, dict):
            raise EndpointUnavailable(f"{self._url}: its response is not a JSON object")
        return body

    async def sizes(self, kind: str, repository: str) -> dict[str, int] | None:
        """Bytes of the repository's files, by their names; of many files, those of the hub's first page.

        Raises:
            AccessNeeded: the repository is gated.
            EndpointUnavailable: it did not respond as a hub does.
        """
        tree = await self._read_json(tree_path(kind, repository), LARGEST["sizes"])
        if tree is None:
            return None
        if not isinstance(tree, list):
            raise EndpointUnavailable(f"{self._url}: its response is not a JSON list")
        entries = (entry for entry in tree if isinstance(entry, dict) and entry.get("type") == "file")
        sizes = ((entry.get("path"), entry.get("size")) for entry in entries)
        return {path: size for path, size in sizes if is_file(path) and type(size) is int and size >= 0}

    async def card(self, kind: str, repository: str) -> str | None:
        """The repository's README.md; None: there is none.

        Raises:
            AccessNeeded: the repository is gated.
            EndpointUnavailable: it did not respond as a hub does.
        """
        content = await self._read(file_path(kind, repository, README), LARGEST["card"])
        return None if content is None else read_text(content)

    async def _read_json(self, path: str, largest: int) -> Any:
        content = await self._read(path, largest)
        if content is None:
            return None
        try:
            return read_json(content)
        except ValueError as error:
            raise EndpointUnavailable(f"{self._url}: its response is not JSON: {error}") from error

    async def _read(self, path: str, largest: int) -> bytes | None:
        try:
            # the time to wait for a turn is the user's too
            async with asyncio.timeout(self._seconds), self._turns, self._client() as http:
                if time.monotonic() < self._paused_until:
                    raise EndpointUnavailable(f"{self._url} did not respond a moment ago")
                return await self._followed(http, path, largest)
        except (httpx2.HTTPError, TimeoutError) as error:
            raise self._failed(str(error) or type(error).__name__) from error

    def _client(self) -> httpx2.AsyncClient:
        # uncompressed, so that what is read is as long as what is stored
        headers = {"Accept-Encoding": "identity", "User-Agent": "strata-ml-hub"}
        return httpx2.AsyncClient(verify=self._tls, timeout=self._seconds, trust_env=False, headers=headers)

    async def _followed(self, http: httpx2.AsyncClient, path: str, largest: int) -> bytes | None:
        """The content behind redirects, which never lead to another server: it could be one of the site's own."""
        url = self._url + path
        for _ in range(1 + REDIRECTS):
            async with http.stream("GET", url) as response:
                if not response.is_redirect:
                    return await self._content(response, largest)
                url = urljoin(url, response.headers.get("location", ""))
            if urlsplit(url)[:2] != urlsplit(self._url)[:2]:
                raise EndpointUnavailable(f"{self._url}{path} redirects to another server")
        raise EndpointUnavailable(f"{self._url}{path} redirects more than {REDIRECTS} times")

    async def _content(self, response: httpx2.Response, largest: int) -> bytes | None:
        gated = response.headers.get("x-error-code") == "GatedRepo"
        if response.status_code == httpx2.codes.FORBIDDEN or gated:
            raise AccessNeeded
        if response.status_code in _NONE:
            return None
        if response.status_code != httpx2.codes.OK:
            raise self._failed(f"status {response.status_code}")
        content = bytearray()
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > largest:
                raise EndpointUnavailable(f"{response.url} has more than {largest:,} bytes")
        return bytes(content)

    def _failed(self, why: str) -> EndpointUnavailable:
        self._paused_until = time.monotonic() + self._pause
        return EndpointUnavailable(f"{self._url}: {why}")
