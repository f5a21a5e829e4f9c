"""A kernel of a running server, as JupyterLab uses it: for checks and tests."""

from __future__ import annotations

import json
import socket
import ssl
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import websocket

from strata.access.https import load_balancer_address, trusted_authorities

if TYPE_CHECKING:
    import requests

    from strata.site.context import SiteContext

HTTPS = 443
MESSAGE_SECONDS = 180.0
"""For one answer of the server or message of a kernel, which starts on a busy node."""


@dataclass(frozen=True)
class Server:
    """A user's running server.

    Args:
        http: finds the site's names.
        host: name of the hub.
        user: whose server it is.
        token: of the hub, with access to the server.
    """

    http: requests.Session
    host: str
    user: str
    token: str = field(repr=False)

    def run(self, context: SiteContext, code: str) -> str:
        """What a new kernel prints."""
        return self.execute(context, self.start_kernel(), code)

    def start_kernel(self) -> str:
        """Starts a kernel; returns its id."""
        started = self.http.post(
            f"https://{self._path}", json={"name": "python3"}, headers=self._headers, timeout=MESSAGE_SECONDS
        )
        assert started.status_code == 201, started.text
        return str(started.json()["id"])

    def execute(self, context: SiteContext, kernel: str, code: str) -> str:
        """What a running kernel prints."""
        authorities = trusted_authorities(context)
        tls = ssl.create_default_context(cafile=authorities if isinstance(authorities, str) else None)
        connection = socket.create_connection((load_balancer_address(context), HTTPS), timeout=MESSAGE_SECONDS)
        with tls.wrap_socket(connection, server_hostname=self.host) as secured:
            channels = websocket.create_connection(
                f"wss://{self._path}/{kernel}/channels",
                socket=secured,
                header=[f"{name}: {value}" for name, value in self._headers.items()],
                timeout=MESSAGE_SECONDS,
            )
            return run_code(channels, code)

    @property
    def _path(self) -> str:
        return f"{self.host}/user/{self.user}/api/kernels"

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"token {self.token}"}


def run_code(kernel: websocket.WebSocket, code: str) -> str:
    """Runs code by Jupyter's messages; returns standard output."""
    request = uuid.uuid4().hex
    header = {"msg_id": request, "msg_type": "execute_request", "session": request, "username": "", "version": "5.3"}
    content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False}
    message = {"channel": "shell", "header": header, "parent_header": {}, "metadata": {}, "content": content}
    kernel.send(json.dumps(message))
    text = ""
    while True:
        answer = json.loads(kernel.recv())
        if answer["parent_header"].get("msg_id") != request:
            continue
        kind, content = answer["msg_type"], answer["content"]
        assert kind != "error", content
        if kind == "stream":
            text += content["text"]
        if kind == "status" and content["execution_state"] == "idle":
            return text
