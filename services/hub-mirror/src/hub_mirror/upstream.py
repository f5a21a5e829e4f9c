"""Requests to the mirrored Hub: to its own host and the hosts of its files only, tokens to its own host alone."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote, urlencode

import httpx2
import structlog

from hub_mirror.names import Repository, quoted
from hub_mirror.settings import Settings

REDIRECTS = frozenset({301, 302, 303, 307, 308})
MOST_REDIRECTS = 5
LARGEST_ANSWER = 8 * 2**20
"""Bytes of an answer that is not a file."""
RETRIED = 429
PORTS = {"https": 443, "http": 80}

log = structlog.get_logger(__name__)


class UpstreamUnavailable(Exception):
    """The upstream does not respond, or not as a Hub does; the message gives the reason and goes to the caller."""


class RedirectRefused(UpstreamUnavailable):
    """The upstream redirects to a host that is not one of its own; it would again."""


@dataclass(frozen=True)
class Answer:
    """What the upstream returned for something that is not a file.

    Args:
        status: 200, or that of a refusal below 500.
        body: JSON of a 200.
        link: URL of the next page.
        error_code: X-Error-Code of a refusal.
        error_message: X-Error-Message of a refusal.
        commit: X-Repo-Commit, if sent.
    """

    status: int
    body: bytes = b""
    link: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    commit: str | None = None


@dataclass(frozen=True)
class FileHead:
    """What the upstream returns for one file.

    Args:
        commit: that has it.
        etag: without quotes: SHA-256 of large files, id of git's blob of others.
        size: bytes.
        large: whether it is stored by git LFS or Xet.
    """

    commit: str
    etag: str
    size: int
    large: bool


@dataclass(frozen=True)
class FileStream:
    """A response with a file, or a part of it.

    Args:
        status: 200 or 206, or that of a refusal below 500.
        headers: of the response with the bytes, or of the refusal.
        answer: the refusal.
        response: whose bytes are read.
    """

    status: int
    headers: Mapping[str, str]
    answer: Answer | None
    response: httpx2.Response


class Upstream:
    """The client.

    Args:
        settings: upstream, its other hosts, CA, proxy, offline.
    """

    def __init__(self, settings: Settings) -> None:
        self._base = httpx2.URL(str(settings.upstream).rstrip("/"))
        self._hosts = settings.upstream_hosts
        self._offline = settings.offline
        context = ssl.create_default_context(cafile=settings.upstream_ca_file)
        proxy = str(settings.upstream_proxy) if settings.upstream_proxy else None
        self._client = httpx2.AsyncClient(
            timeout=settings.upstream_timeout_seconds,
            verify=context,
            proxy=proxy,
            # variables of the process name no other proxy, and .netrc no passwords
            trust_env=False,
            follow_redirects=False,
            headers={"User-Agent": "strata-hub-mirror", "Accept-Encoding": "identity"},
        )

    @property
    def offline(self) -> bool:
        """Whether it is never asked."""
        return self._offline

    async def close(self) -> None:
        """Closes all connections."""
        await self._client.aclose()

    async def ask(
        self,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        *,
        body: bytes | None = None,
        token: str | None = None,
    ) -> Answer:
        """An answer in JSON, or a refusal.

        Args:
            path: checked; below the upstream's URL.
            query: of the URL.
            body: JSON to POST; None: a GET.
            token: the caller's of the Hub.

        Raises:
            UpstreamUnavailable: no answer, or one that is not a Hub's.
        """
        url = self._url(path, query)
        async with self._follow("GET" if body is None else "POST", url, token, body=body) as response:
            content = bytearray()
            async for chunk in response.aiter_raw():
                content += chunk
                if len(content) > LARGEST_ANSWER:
                    raise UpstreamUnavailable(f"the answer to {path} has more than {LARGEST_ANSWER} bytes")
        if response.status_code != httpx2.codes.OK:
            return _refused(response)
        if "json" not in response.headers.get("content-type", ""):
            raise UpstreamUnavailable(f"the answer to {path} is not JSON")
        return Answer(200, bytes(content), response.links.get("next", {}).get("url"))

    async def head(
        self, repository: Repository, revision: str, path: str, token: str | None = None
    ) -> FileHead | Answer:
        """Commit, ETag and size of a file, or the refusal.

        Raises:
            UpstreamUnavailable: no answer, or one that is not a Hub's.
        """
        async with self._follow("HEAD", self._file_url(repository, revision, path), token, to_file=False) as response:
            pass
        headers = response.headers
        if response.status_code not in REDIRECTS | {200}:
            return _refused(response)
        commit, large = headers.get("x-repo-commit", ""), "x-linked-etag" in headers
        etag = headers.get("x-linked-etag" if large else "etag", "").removeprefix("W/").strip('"')
        size = headers.get("x-linked-size" if large else "content-length", "")
        if not (commit and etag.isascii() and etag.replace("-", "").isalnum() and size.isdecimal()):
            raise UpstreamUnavailable(f"the upstream names no commit, ETag or size of {repository.id}/{path}")
        return FileHead(commit, etag, int(size), large)

    @asynccontextmanager
    async def open(
        self, repository: Repository, revision: str, path: str, byte_range: str = "", token: str | None = None
    ) -> AsyncIterator[FileStream]:
        """A file's bytes, as they arrive.

        Args:
            repository: of the file.
            revision: of the repository.
            path: of the file.
            byte_range: `bytes=100-`; empty: all.
            token: the caller's of the Hub.

        Raises:
            UpstreamUnavailable: no answer, or one that is not a Hub's.
        """
        headers = {"Range": byte_range} if byte_range else {}
        url = self._file_url(repository, revision, path)
        async with self._follow("GET", url, token, headers=headers) as response:
            if response.headers.get("content-encoding", "identity") != "identity":
                raise UpstreamUnavailable("the upstream compresses files, which was not asked for")
            refused = None if response.status_code in (200, 206, 416) else _refused(response)
            first = {**(response.history[0].headers if response.history else {}), **response.headers}
            yield FileStream(response.status_code, first, refused, response)

    def _url(self, path: str, query: Sequence[tuple[str, str]] = ()) -> httpx2.URL:
        text = f"{self._base}".rstrip("/") + quote(path, safe="/%")
        return httpx2.URL(f"{text}?{urlencode(query)}" if query else text)

    def _file_url(self, repository: Repository, revision: str, path: str) -> httpx2.URL:
        text = f"{self._base}".rstrip("/") + f"{quote(repository.web_path)}/resolve/{quoted(revision)}/{quote(path)}"
        return httpx2.URL(text)

    @asynccontextmanager
    async def _follow(
        self,
        method: str,
        url: httpx2.URL,
        token: str | None,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        to_file: bool = True,
    ) -> AsyncIterator[httpx2.Response]:
        """The last response of a chain of redirects; `to_file=False` ends it at the redirect to a file's host."""
        if self._offline:
            raise UpstreamUnavailable("this hub is offline")
        history: list[httpx2.Response] = []
        for _ in range(MOST_REDIRECTS):
            sent = dict(headers or {})
            if body is not None:
                sent["Content-Type"] = "application/json"
            if token is not None and self._is_own(url):
                sent["Authorization"] = f"Bearer {token}"
            try:
                async with self._client.stream(method, url, headers=sent, content=body) as response:
                    location = response.headers.get("location")
                    if response.status_code not in REDIRECTS or location is None:
                        if response.status_code >= 500 or response.status_code == RETRIED:
                            raise UpstreamUnavailable(f"the upstream answers with status {response.status_code}")
                        response.history = history
                        yield response
                        return
                    if not to_file and "x-linked-etag" in response.headers:
                        yield response
                        return
                    history.append(response)
                    url = self._allowed(url.join(location))
            except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
                log.warning("upstream does not respond", host=url.host, error=type(error).__name__, reason=str(error))
                raise UpstreamUnavailable(f"the upstream does not respond: {type(error).__name__}") from error
        raise UpstreamUnavailable("the upstream redirects without an end")

    def _is_own(self, url: httpx2.URL) -> bool:
        return _origin(url) == _origin(self._base)

    def _allowed(self, url: httpx2.URL) -> httpx2.URL:
        """The same URL.

        Raises:
            RedirectRefused: it is neither the upstream's nor of one of its hosts.
        """
        if self._is_own(url):
            return url
        port = url.port or PORTS.get(url.scheme, 0)
        for allowed in self._hosts:
            name, _, number = allowed.partition(":")
            same = url.host.endswith(name[1:]) if name.startswith("*.") else url.host == name
            if same and url.scheme == self._base.scheme and port == int(number or PORTS[self._base.scheme]):
                return url
        log.warning("redirect refused", host=url.host, port=port, scheme=url.scheme)
        raise RedirectRefused(f"the upstream redirects to {url.host}:{port}, which upstream_hosts does not allow")


def _origin(url: httpx2.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or PORTS.get(url.scheme, 0)


def _refused(response: httpx2.Response) -> Answer:
    headers = response.headers
    return Answer(
        response.status_code,
        error_code=headers.get("x-error-code"),
        error_message=headers.get("x-error-message"),
        commit=headers.get("x-repo-commit"),
    )
