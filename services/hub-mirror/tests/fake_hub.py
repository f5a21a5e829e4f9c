"""A Hugging Face Hub on loopback: an HTTP server for the API and files, another one as its CDN.

Status, headers and fields are the Hub's, as hub_shapes.json has them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from strata_bench.services import free_port

SHAPES: dict[str, Any] = json.loads((Path(__file__).parent / "hub_shapes.json").read_text())
LARGE = 100_000
"""Bytes; from here on a file is stored by LFS."""


def git_oid(content: bytes) -> str:
    """Git's id of a blob."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@dataclass
class Repo:
    """A repository of the Hub.

    Args:
        files: path to content, of the branch main.
        gated: whether files need the token; the card does not.
        private: whether all needs the token.
    """

    files: dict[str, bytes]
    gated: bool = False
    private: bool = False
    tags: list[str] = field(default_factory=list)
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)

    @property
    def head(self) -> str:
        """The commit of main; another one for other content."""
        content = json.dumps({path: git_oid(data) for path, data in self.files.items()}, sort_keys=True)
        sha = hashlib.sha1(content.encode(), usedforsecurity=False).hexdigest()
        self.commits.setdefault(sha, dict(self.files))
        return sha


@dataclass(frozen=True)
class Seen:
    """A request that the Hub or its CDN got."""

    method: str
    path: str
    query: Mapping[str, str]
    token: str | None = field(repr=False)
    range: str | None
    cdn: bool


class FakeHub:
    """The Hub; tests change what it has and does."""

    def __init__(self) -> None:
        self.port, self.cdn_port = free_port(), free_port()
        self.repos: dict[str, Repo] = {}
        self.seen: list[Seen] = []
        self.token = "hf_theowner"  # of the tests
        self.cut_after: list[int] = []
        """Bytes after which a response of the CDN breaks off, one for each response."""
        self.gate: threading.Event | None = None
        """What the CDN waits for after the first half of a file."""
        self.corrupt = False
        """Whether the CDN sends other bytes of the same length."""
        self.ranges = True
        """Whether the CDN knows ranges."""
        self.location = ""
        """Where redirects lead, in place of the CDN."""
        self._servers: list[ThreadingHTTPServer] = []

    @property
    def url(self) -> str:
        """Of the API and of files."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Serves, at the same ports each time."""
        for port, cdn in ((self.port, False), (self.cdn_port, True)):
            server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self, cdn=cdn))
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            self._servers.append(server)

    def stop(self) -> None:
        """Is gone."""
        for server in self._servers:
            server.shutdown()
            server.server_close()
        self._servers.clear()

    @contextlib.contextmanager
    def gone(self) -> Iterator[None]:
        """Does not respond for a while."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def fetched(self, name: str) -> list[Seen]:
        """GET requests for a file's bytes, at the host that has them."""
        return [
            request
            for request in self.seen
            if request.method == "GET" and request.path.endswith(name) and "/api/" not in request.path
        ]


def _repo_of(hub: FakeHub, parts: list[str]) -> tuple[str, list[str]]:
    kind = "models"
    if parts[0] in ("models", "datasets"):
        kind, parts = parts[0], parts[1:]
    length = 1 if f"{kind}/{parts[0]}" in hub.repos else 2
    return f"{kind}/{'/'.join(parts[:length])}", parts[length:]


def _handler(hub: FakeHub, *, cdn: bool) -> type[BaseHTTPRequestHandler]:  # one server
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_HEAD(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            url = urlsplit(self.path)
            authorization = self.headers.get("Authorization")
            token = authorization.removeprefix("Bearer ") if authorization else None
            query = dict(parse_qsl(url.query))
            hub.seen.append(Seen(self.command, url.path, query, token, self.headers.get("Range"), cdn))
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = [unquote(part) for part in url.path.strip("/").split("/")]
            with contextlib.suppress(ConnectionError):
                if cdn:
                    self._file(hub.repos[f"{parts[1]}/{unquote(parts[2])}"].commits[parts[3]]["/".join(parts[4:])])
                elif parts == ["api", "whoami-v2"]:
                    self._whoami(token)
                elif parts[0] == "api" and len(parts) == 2:
                    self._list(parts[1], query, token)
                elif parts[0] == "api":
                    self._api(*_repo_of(hub, parts[1:]), body, query, token)
                else:
                    self._resolve(*_repo_of(hub, parts), token)

        def _send(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if "Content-Length" not in headers:
                self.send_header("Content-Length", str(len(content)))
            # so that a hub that is gone has no connections
            self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def _json(self, value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
            content = json.dumps(value).encode()
            self._send(status, content, {"Content-Type": "application/json; charset=utf-8", **(headers or {})})

        def _refuse(self, name: str, **headers: str) -> None:
            shape = SHAPES["refusals"][name]
            self._json(shape["body"], shape["status"], {**shape["headers"], **headers})

        def _whoami(self, token: str | None) -> None:
            if token != hub.token:
                self._refuse("invalid_token")
            else:
                self._json(SHAPES["whoami"])

        def _hidden(self, repo: str, token: str | None, *, files: bool) -> bool:
            repository = hub.repos.get(repo)
            if repository is None or (repository.private and token != hub.token):
                self._refuse("repository_not_found" if token else "repository_not_found_anonymous")
                return True
            if files and repository.gated and token != hub.token:
                self._refuse("gated" if token else "gated_anonymous")
                return True
            return False

        def _card(self, repo: str, commit: str) -> dict[str, Any]:
            kind, _, name = repo.partition("/")
            repository = hub.repos[repo]
            card = {**SHAPES["card"], "id": name, "sha": commit, "tags": repository.tags, "private": repository.private}
            card |= {"author": name.partition("/")[0], "gated": "auto" if repository.gated else False}
            card["siblings"] = [{"rfilename": path} for path in sorted(repository.commits[commit])]
            return card | ({"modelId": name} if kind == "models" else {})

        def _list(self, kind: str, query: dict[str, str], token: str | None) -> None:
            names = sorted(
                repo for repo, repository in hub.repos.items()
                if repo.startswith(f"{kind}/") and (not repository.private or token == hub.token)
                and query.get("search", "") in repo and query.get("filter", "") in ["", *repository.tags]
                and repo.startswith(f"{kind}/{query.get('author', '')}")
            )  # fmt: skip
            start, limit = int(query.get("cursor", 0)), int(query.get("limit", 1000))
            shown = [self._card(repo, hub.repos[repo].head) for repo in names[start : start + limit]]
            more = start + limit < len(names)
            link = f'<{hub.url}/api/{kind}?limit={limit}&cursor={start + limit}>; rel="next"'
            self._json(shown, headers={"Link": link} if more else {})

        def _api(self, repo: str, rest: list[str], body: bytes, query: dict[str, str], token: str | None) -> None:
            if self._hidden(repo, token, files=False):
                return
            repository = hub.repos[repo]
            word, *more = rest or ["revision", "main"]
            if word == "refs":
                main = {"name": "main", "ref": "refs/heads/main", "targetCommit": repository.head}
                self._json({**SHAPES["refs"], "branches": [main]})
                return
            commit = repository.head if more[0] == "main" else more[0]
            if commit not in repository.commits:
                self._refuse("revision_not_found")
                return
            files = repository.commits[commit]
            if word == "revision":
                self._json(self._card(repo, commit))
            elif word == "tree":
                self._json(self._tree(files, "/".join(more[1:]), recursive="recursive" in query))
            else:
                paths = json.loads(body)["paths"]
                self._json([self._entry(path, files[path]) for path in paths if path in files])

        def _tree(self, files: dict[str, bytes], folder: str, *, recursive: bool) -> list[dict[str, Any]]:
            prefix = f"{folder}/" if folder else ""
            inside = {path: content for path, content in sorted(files.items()) if path.startswith(prefix)}
            above = {path[:index] for path in inside for index, letter in enumerate(path) if letter == "/"}
            shown = [folder for folder in sorted(above) if folder.startswith(prefix)]
            folders = [folder for folder in shown if recursive or "/" not in folder.removeprefix(prefix)]
            listed = [path for path in inside if recursive or "/" not in path.removeprefix(prefix)]
            entries = [
                {"type": "directory", "oid": git_oid(folder.encode()), "size": 0, "path": folder} for folder in folders
            ]
            return entries + [self._entry(path, inside[path]) for path in listed]

        def _entry(self, path: str, content: bytes) -> dict[str, Any]:
            if len(content) < LARGE:
                return {"type": "file", "oid": git_oid(content), "size": len(content), "path": path}
            sha = hashlib.sha256(content).hexdigest()
            entry = {**SHAPES["large_entry"], "oid": git_oid(sha.encode()), "size": len(content), "path": path}
            entry["lfs"] = {**entry["lfs"], "oid": sha, "size": len(content)}
            return entry | {"xetHash": sha}

        def _resolve(self, repo: str, rest: list[str], token: str | None) -> None:
            if self._hidden(repo, token, files=True):
                return
            repository = hub.repos[repo]
            _, revision, *names = rest
            commit, path = repository.head if revision == "main" else revision, "/".join(names)
            if commit not in repository.commits:
                self._refuse("revision_not_found")
                return
            if (content := repository.commits[commit].get(path)) is None:
                self._refuse("entry_not_found", **{"X-Repo-Commit": commit})
                return
            headers = {"X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
            if len(content) < LARGE:
                self._send(200, content, {**headers, "ETag": f'"{git_oid(content)}"'})
                return
            sha = hashlib.sha256(content).hexdigest()
            headers |= {"X-Linked-Size": str(len(content)), "X-Linked-ETag": f'"{sha}"', "X-Xet-Hash": sha}
            kind, _, name = repo.partition("/")
            target = f"http://127.0.0.1:{hub.cdn_port}/cdn/{kind}/{name.replace('/', '%2F')}/{commit}/{path}"
            self._send(302, b"", {**headers, "Location": f"{hub.location or target}?Signature=x"})

        def _file(self, content: bytes) -> None:
            if hub.corrupt:
                content = bytes(reversed(content))
            start, status = 0, 200
            headers = {"Accept-Ranges": "bytes", "ETag": '"of-the-cdn"'}
            if (requested := self.headers.get("Range")) and hub.ranges:
                first, _, last = requested.removeprefix("bytes=").partition("-")
                start, end = int(first), int(last) + 1 if last else len(content)
                headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(content)}"
                content, status = content[start:end], 206
            if hub.cut_after:
                self._send(status, content[: hub.cut_after.pop(0)], {**headers, "Content-Length": str(len(content))})
                self.close_connection = True
            elif hub.gate is not None:
                half = len(content) // 2
                self._send(status, content[:half], {**headers, "Content-Length": str(len(content))})
                self.wfile.flush()
                assert hub.gate.wait(60)
                self.wfile.write(content[half:])
            else:
                self._send(status, content, headers)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Logs nothing."""

    return Handler
