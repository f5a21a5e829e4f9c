"""An HTTP server on loopback that answers as reported: late, with an error, half, or not at all, and then rightly."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Fault(StrEnum):
    """What goes wrong with one answer."""

    ERROR = "500 Internal Server Error"
    RESET = "the connection is reset half way"
    SHORT = "half of what was announced, then the end"
    TRICKLE = "a byte now and then"
    SILENCE = "nothing at all"


@dataclass(frozen=True)
class Answer:
    """A right answer."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Server:
    """What a test knows of the server.

    Args:
        answer: method, path and body to the right answer.
        faults: by the beginning of `METHOD /path`: what goes wrong with the first requests, one after the other.
        always: the same, for every request.
    """

    answer: Callable[[str, str, bytes], Answer]
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    always: dict[str, Fault] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    url: str = ""
    _over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fault(self, line: str) -> Fault | None:
        """What goes wrong with this request."""
        with self._lock:
            self.asked.append(line)
            for beginning, faults in self.faults.items():
                if line.startswith(beginning) and faults:
                    return faults.pop(0)
        return next((fault for beginning, fault in self.always.items() if line.startswith(beginning)), None)

    def end(self) -> None:
        """Lets the answers end that never would."""
        self._over.set()

    def wait(self, seconds: float) -> bool:
        """Whether the server ended meanwhile."""
        return self._over.wait(seconds)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    behaviour: Server

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True  # the client gave up

    def _handle(self) -> None:
        fault = self.behaviour.fault(f"{self.command} {self.path}")
        if fault in (Fault.RESET, Fault.SILENCE) and self.command in ("PATCH", "PUT", "POST"):
            self.rfile.read1(1 << 10)  # half of what the client sends is all that is taken
            self._drop(fault)
            return
        body = self._body()
        if fault is Fault.ERROR:
            self._send(Answer(500, b"the disk is on fire\n"))
            return
        right = self.behaviour.answer(self.command, self.path, body)
        if fault is None:
            self._send(right)
        elif fault is Fault.SILENCE:
            self._drop(fault)
        else:
            self._begin(right)
            half = right.body[: len(right.body) // 2]
            if fault is Fault.TRICKLE:
                for number in range(len(right.body)):
                    self.wfile.write(right.body[number : number + 1])
                    if self.behaviour.wait(0.2):
                        break
            else:
                self.wfile.write(half)
            self._drop(fault)

    def _drop(self, fault: Fault) -> None:
        self.close_connection = True
        if fault is Fault.SILENCE:
            self.behaviour.wait(600)
        if fault is Fault.RESET:
            # no lingering: the client gets a reset instead of an end
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            os.close(self.connection.detach())

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _begin(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()

    def _send(self, answer: Answer) -> None:
        self._begin(answer)
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = _handle

    def log_message(self, format: str, *arguments: Any) -> None:
        """Logs nothing."""


@contextmanager
def running(server: Server, address: tuple[str, int] = ("127.0.0.1", 0), pem: Path | None = None) -> Iterator[Server]:
    """Serves meanwhile.

    Args:
        server: how it behaves; its `url` is set.
        address: where it listens.
        pem: certificate and key, for TLS.
    """
    handler = type("Handler", (_Handler,), {"behaviour": server})
    listener = ThreadingHTTPServer(address, handler)
    listener.daemon_threads = True
    if pem is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        # the handshake is the handler's, so that a slow client stops nobody else
        listener.socket = context.wrap_socket(listener.socket, server_side=True, do_handshake_on_connect=False)
    server.url = f"{'https' if pem else 'http'}://{address[0]}:{listener.server_port}"
    thread = threading.Thread(target=listener.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.end()
        listener.shutdown()
        listener.server_close()
        thread.join()
