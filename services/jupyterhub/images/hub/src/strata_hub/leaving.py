"""`python3 -m strata_hub.leaving`: ends what a user who leaves has at the hub; standard input names the user."""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kubespawner.slugs import safe_slug

URL = "http://127.0.0.1:8081/hub/api"
TOKEN = Path("/usr/local/etc/jupyterhub/existing-secret/hub.services.leaving.apiToken")
REQUEST_SECONDS = 30.0
STOP_SECONDS = 90.0
"""Until a server has stopped."""
SLUG_LENGTH = 48
"""KubeSpawner's limit for `{username}`."""
NOT_FOUND = 404


class Hub:
    """The hub's API."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token

    def call(self, method: str, path: str) -> tuple[int, Any]:
        """Status and content of an answer.

        Raises:
            OSError: the hub does not respond.
        """
        headers = {"Authorization": f"token {self._token}"}
        request = urllib.request.Request(self._url + path, headers=headers, method=method)  # noqa: S310  # the hub's own
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as response:  # noqa: S310  # the same
                content = response.read()
                return response.status, json.loads(content) if content else None
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors="replace")[:500]


def leave(hub: Hub, request: dict[str, Any], pause: float = 1.0) -> dict[str, Any]:
    """Stops the user's server and deletes the user, with tokens and sessions; as `LeavingProgram` describes it.

    Args:
        hub: its API.
        request: what standard input has.
        pause: seconds between two tries while the server stops.
    """
    name = request["name"]
    path, folders = f"/users/{quote(name, safe='')}", {"homes": safe_slug(name, max_length=SLUG_LENGTH)}
    status, user = hub.call("GET", path)
    if status == NOT_FOUND:
        return {"ended": [], "folders": folders}
    if status >= 400:
        return {"problem": f"the hub answers {status}: {user}"}
    ended = ["1 server"] if user.get("server") or user.get("pending") else []
    ended.append("sessions and API tokens")
    if request["dry_run"]:
        return {"ended": ended, "folders": folders}
    end = time.monotonic() + STOP_SECONDS
    while True:
        # also a server that starts, which the deletion of its user does not stop
        hub.call("DELETE", f"{path}/server")
        status, said = hub.call("DELETE", path)
        if status < 400 or status == NOT_FOUND:
            return {"ended": ended, "folders": folders}
        if time.monotonic() > end:
            return {"problem": f"the hub answers {status}: {said}"}
        time.sleep(pause)


def main() -> None:
    """Entry point."""
    try:
        answer = leave(Hub(URL, TOKEN.read_text().strip()), json.load(sys.stdin))
    except OSError as error:
        answer = {"problem": f"the hub does not respond: {error}"}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
