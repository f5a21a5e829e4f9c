"""Whether services respond, as their users reach them: through the load balancer, by name, over TLS."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

TIMEOUT_SECONDS = 3.0
"""For one request; a service that is slower is down for its users."""
INTERVAL_SECONDS = 5.0


@dataclass(frozen=True)
class Target:
    """A service.

    Args:
        host: its name.
        path: responds below 400 while the service is healthy.
    """

    host: str
    path: str


@dataclass(frozen=True)
class Entrance:
    """The site's load balancer.

    Args:
        address: of it.
        port: TCP port for HTTPS.
        tls: trusts the CA of the services' certificate.
    """

    address: str
    port: int
    tls: ssl.SSLContext


class _Connection(http.client.HTTPSConnection):
    """To the load balancer, whatever the name resolves to here."""

    def __init__(self, host: str, entrance: Entrance) -> None:
        super().__init__(host, timeout=TIMEOUT_SECONDS)
        self._entrance = entrance

    def connect(self) -> None:
        """Called by the base class."""
        plain = socket.create_connection((self._entrance.address, self._entrance.port), timeout=TIMEOUT_SECONDS)
        self.sock = self._entrance.tls.wrap_socket(plain, server_hostname=self.host)


@dataclass(frozen=True)
class Answer:
    """How a service responded.

    Args:
        seconds: until it did, or until that was given up.
        problem: why it is down, for its users; empty while it responds.
    """

    seconds: float
    problem: str = ""


def probe(target: Target, entrance: Entrance) -> Answer:
    """How a service responds now."""
    begin = time.monotonic()
    problem = _problem(target, entrance)
    return Answer(time.monotonic() - begin, problem)


def _problem(target: Target, entrance: Entrance) -> str:
    connection = _Connection(target.host, entrance)
    try:
        connection.request("GET", target.path, headers={"User-Agent": "strata-portal", "Connection": "close"})
        status = connection.getresponse().status
        return f"HTTP status {status}" if status >= 400 else ""
    except (OSError, http.client.HTTPException):
        return "no answer"
    finally:
        connection.close()


class Monitor:
    """The last known state of each service, refreshed by a thread.

    Args:
        targets: the services.
        entrance: the load balancer.
    """

    def __init__(self, targets: Iterable[Target], entrance: Entrance) -> None:
        self._targets = tuple(dict.fromkeys(targets))
        self._entrance = entrance
        self._answers: dict[Target, Answer] = {}
        self._checked = 0.0

    def start(self) -> None:
        """Begins to probe."""
        threading.Thread(target=self._run, daemon=True).start()

    def check(self) -> None:
        """Probes every service once, all at one time."""
        if self._targets:
            with ThreadPoolExecutor(len(self._targets)) as pool:
                answers = list(pool.map(lambda target: probe(target, self._entrance), self._targets))
            self._answers = dict(zip(self._targets, answers, strict=True))
        self._checked = time.time()

    def answers(self) -> Mapping[Target, Answer]:
        """The last answers; none while they are unknown: not probed yet, or too long ago."""
        if time.time() - self._checked > 3 * INTERVAL_SECONDS + TIMEOUT_SECONDS:
            return {}
        return self._answers

    def state(self, target: Target) -> tuple[str, str]:
        """up, down or unknown, and the same in users' words, with the reason."""
        answer = self.answers().get(target)
        if answer is None:
            return "unknown", "Not checked yet"
        return ("down", f"Not responding: {answer.problem}") if answer.problem else ("up", "Available")

    @property
    def checked(self) -> int:
        """When the states were read, in seconds since 1970; 0: never."""
        return int(self._checked)

    def _run(self) -> None:
        while True:
            self.check()
            time.sleep(INTERVAL_SECONDS)
