#!/usr/bin/python3 -I
"""Queue of downloads of this transfer node: `data-transfer add <FILE`, `list`, `remove NAME…`.

add reads a line per file: its URL, its name below the folder of the downloads, its SHA-256; the last two are optional.
URLs come by standard input: arguments of a command are visible to every user of the host.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import json
import os
import pwd
import re
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

CONFIGURATION = Path("/etc/aria2/aria2.conf")
USER = "aria2"
SCHEMES = ("https", "http", "ftp", "sftp")
ACTIVE = ("active", "waiting", "paused")
SHA_256 = re.compile("[0-9a-fA-F]{64}")
# no control characters, which a terminal would obey
NAME = re.compile(r"[^\x00-\x1f\x7f]+")
FIELDS = ["gid", "status", "totalLength", "completedLength", "downloadSpeed", "errorCode", "errorMessage", "files"]
ERRORS = {"13": "another file has this name", "32": "the checksum is wrong"}
"""What aria2 has no message for, by its number of the error."""
LAST = 1_000_000
"""More downloads than the queue can have."""


class RefusedError(Exception):
    """What the user has to change."""


@dataclass(frozen=True)
class Download:
    """A line of the list.

    Args:
        url: where it is.
        name: path below the folder of the downloads.
        sha256: hexadecimal; None for none.
    """

    url: str
    name: str
    sha256: str | None = None

    @property
    def gid(self) -> str:
        """Its number in aria2, always the same for a name: a file cannot be queued twice."""
        return gid_of(self.name)

    @property
    def options(self) -> dict[str, str]:
        """Options of aria2.addUri."""
        checksum = {"checksum": f"sha-256={self.sha256}"} if self.sha256 else {}
        return {"gid": self.gid, "out": self.name, **checksum}


def gid_of(name: str) -> str:
    """aria2's number of the download with this name, 16 hexadecimal digits."""
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def read(lines: list[str]) -> list[Download]:
    """The downloads of a list; empty lines and those that begin with # are omitted.

    Raises:
        RefusedError: a line is wrong; none is queued then.
    """
    downloads: dict[str, Download] = {}
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            download = _download(words)
            if download.name in downloads:
                raise RefusedError(f"another line has the name {download.name}; fix: give each file a name of its own")
        except RefusedError as error:
            raise RefusedError(f"line {number}: {error}; nothing is queued") from None
        downloads[download.name] = download
    return list(downloads.values())


def _download(words: list[str]) -> Download:
    url, rest = words[0], words[1:]
    sha256 = rest.pop().lower() if rest and SHA_256.fullmatch(rest[-1]) else None
    if len(rest) > 1:
        raise RefusedError("more than URL, name and SHA-256 (64 hexadecimal digits)")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise RefusedError("the URL cannot be parsed") from None
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise RefusedError(f"the URL must begin with {', '.join(f'{scheme}://' for scheme in SCHEMES)}")
    name = rest[0] if rest else unquote(PurePosixPath(parts.path).name)
    path = PurePosixPath(name)
    if not name or not NAME.fullmatch(name) or path.is_absolute() or ".." in path.parts or not path.name:
        raise RefusedError("the file has no name; fix: add a path below the folder, without ..")
    if path.suffix == ".aria2":
        raise RefusedError("names that end with .aria2 are those of aria2's own files")
    return Download(url, str(path), sha256)


class Queue:
    """aria2, by its RPC.

    Args:
        configuration: text of aria2.conf.
    """

    def __init__(self, configuration: str) -> None:
        lines = (line.partition("=") for line in configuration.splitlines() if not line.startswith("#"))
        settings = {key: value for key, _, value in lines}
        self.folder = settings["dir"]
        self._token = f"token:{settings['rpc-secret']}"
        self._port = int(settings["rpc-listen-port"])

    def call(self, method: str, *parameters: object) -> Any:
        """Result of a method of aria2.

        Raises:
            RefusedError: aria2 does not respond, or refuses.
        """
        body = {"jsonrpc": "2.0", "id": "1", "method": f"aria2.{method}", "params": [self._token, *parameters]}
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request("POST", "/jsonrpc", json.dumps(body), {"Content-Type": "application/json"})
            answer = json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise RefusedError(f"aria2 does not respond ({error}); fix: systemctl status aria2") from None
        finally:
            connection.close()
        if "error" in answer:
            raise RefusedError(f"aria2 refuses {method}: {answer['error'].get('message')}")
        return answer["result"]

    def downloads(self) -> dict[str, dict[str, Any]]:
        """gid to what aria2 knows of it: those in progress, those that wait, those that ended."""
        items = self.call("tellActive", FIELDS)
        items += self.call("tellWaiting", 0, LAST, FIELDS) + self.call("tellStopped", 0, LAST, FIELDS)
        return {item["gid"]: item for item in items}

    def add(self, downloads: list[Download]) -> list[str]:
        """Queues the downloads that are not in the queue; one that failed is tried again.

        Returns:
            A line for each.
        """
        lines, there = [], self.downloads()
        for download in downloads:
            before = there.get(download.gid, {}).get("status")
            if before in ACTIVE:
                lines.append(f"{download.name}: is in the queue already")
                continue
            if before is not None:
                self.call("removeDownloadResult", download.gid)
            self.call("addUri", [download.url], download.options)
            lines.append(f"{download.name}: queued")
        self.call("saveSession")
        return lines

    def remove(self, name: str) -> None:
        """Removes a download from the queue; files stay.

        Raises:
            RefusedError: the queue does not have it.
        """
        gid = gid_of(name)
        item = self.downloads().get(gid)
        if item is None:
            raise RefusedError(f"the queue has no {name}; fix: data-transfer list")
        self.call("forceRemove" if item["status"] in ACTIVE else "removeDownloadResult", gid)
        self.call("saveSession")

    def lines(self) -> list[str]:
        """State, part and name of each download, without its URL, which may hold credentials."""
        return [self._line(item) for item in self.downloads().values() if item["status"] != "removed"]

    def _line(self, item: dict[str, Any]) -> str:
        total, done = int(item["totalLength"]), int(item["completedLength"])
        name = item["files"][0]["path"].removeprefix(f"{self.folder}/")
        part = f"{100 * done // total:3d}%" if total else "   -"
        line = f"{item['status']:8} {part} {name}"
        if item["status"] == "active":
            line += f"  {int(item['downloadSpeed']) / 1e6:.1f} MB/s"
        if item["status"] == "error":
            why = ERRORS.get(item["errorCode"]) or item.get("errorMessage") or f"error {item['errorCode']} of aria2"
            line += "  " + re.sub(r"\S+://\S+", "URL", why)
        return line


def _as_aria2() -> None:
    """Continues as the user of aria2, who alone may read its secret; sudo admits the folder's group and operators."""
    if os.geteuid() != pwd.getpwnam(USER).pw_uid:
        program = str(Path(__file__).resolve())
        os.execv("/usr/bin/sudo", ["sudo", "--non-interactive", f"--user={USER}", program, *sys.argv[1:]])  # noqa: S606


def _fail(message: object) -> NoReturn:
    sys.exit(f"data-transfer: {message}")


def main() -> None:
    """Runs a command; exits with 1 where something is refused."""
    parser = argparse.ArgumentParser(prog="data-transfer", description="Queue of downloads of this transfer node.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("add", help="queue the files on standard input, a line for each: URL [NAME] [SHA-256]")
    commands.add_parser("list", help="show the queue and what ended")
    commands.add_parser("remove", help="remove downloads from the queue").add_argument("names", nargs="+")
    arguments = parser.parse_args()
    _as_aria2()
    try:
        queue = Queue(CONFIGURATION.read_text())
        if arguments.command == "add":
            print("\n".join(queue.add(read(sys.stdin.read().splitlines()))))
        elif arguments.command == "list":
            print("\n".join(queue.lines()))
        else:
            for name in arguments.names:
                queue.remove(name)
    except RefusedError as error:
        _fail(error)


if __name__ == "__main__":
    main()
