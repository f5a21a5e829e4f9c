"""Whether services respond, as their users reach them: through the load balancer, by name, over TLS."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

TIMEOUT_SECONDS = 5.0
"""For one request; a service that is slower is down for its users."""
INTERVAL_SECONDS = 15.0


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


def responds(target: Target, entrance: Entrance) -> bool:
    """Whether a service responds now."""
    connection = _Connection(target.host, entrance)
    try:
        connection.request("GET", target.path, headers={"User-Agent": "strata-portal", "Connection": "close"})
        return connection.getresponse().status < 400
    except (OSError, http.client.HTTPException):
        return False
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
        self._up: dict[Target, bool] = {}
        self._checked = 0.0

    def start(self) -> None:
        """Begins to probe."""
        threading.Thread(target=self._run, daemon=True).start()

    def check(self) -> None:
        """Probes every service once, all at one time."""
        if self._targets:
            with ThreadPoolExecutor(len(self._targets)) as pool:
                found = list(pool.map(lambda target: responds(target, self._entrance), self._targets))
            self._up = dict(zip(self._targets, found, strict=True))
        self._checked = time.time()

    def state(self, target: Target) -> str:
        """up, down, or unknown: not probed yet, or too long ago."""
        if time.time() - self._checked > 3 * INTERVAL_SECONDS + TIMEOUT_SECONDS:
            return "unknown"
        return "up" if self._up.get(target) else "down"

    @property
    def checked(self) -> int:
        """When the states were read, in seconds since 1970; 0: never."""
        return int(self._checked)

    def _run(self) -> None:
        while True:
            self.check()
            time.sleep(INTERVAL_SECONDS)
