"""What Strata asks of the site's image registry, over its HTTP interface."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from strata.errors import UserError
from strata.progress import Progress, Silent

MANIFEST_TYPES = ", ".join(
    (
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
REGISTRY_PORT = 5000
TIMEOUT = 15.0
"""Seconds the registry may take for one answer, from the question to its last byte."""
PATIENCE = 20.0
"""Seconds in which it may fail to answer, or answer with an error of its own, before that is told."""
PAUSE = 0.5
"""Seconds between two attempts."""


class RegistryClient:
    """One kept connection to a registry; a context manager.

    Args:
        address: IP address of the registry.
        host_name: the name in its certificate.
        ca_file: PEM file of the authority that signed it.
        progress: told what the registry is asked for again, and why.
    """

    def __init__(self, address: str, host_name: str, ca_file: Path, progress: Progress | None = None) -> None:
        self.address = address
        self.host_name = host_name
        self._progress: Progress = progress or Silent()
        context = ssl.create_default_context(cafile=str(ca_file))
        self._connection = _NamedConnection(address, host_name, context)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def _request(
        self, method: str, path: str, what: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers with lower-case names, body; asked again when the registry is on its way up or overloaded.

        Args:
            method: of HTTP.
            path: with the leading slash.
            what: repository and tag that it is about, for messages.
            body: to send.
            headers: to send.
        """
        end = time.monotonic() + PATIENCE
        while True:
            said: Exception | str
            try:
                status, reason, found, content = self._ask_once(method, path, body, headers or {})
            except ssl.SSLCertVerificationError as error:
                raise self._refused(what, error) from error  # another answer is not to be expected
            except (OSError, http.client.HTTPException) as error:
                said = error
            else:
                if status < http.HTTPStatus.INTERNAL_SERVER_ERROR:
                    return status, found, content
                said = f"{status} {reason}"
            if time.monotonic() > end:
                raise self._refused(what, said)
            self._progress.update(f"asking the registry at {self.address} again for {what}: {said}")
            time.sleep(PAUSE)

    def _ask_once(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, str, dict[str, str], bytes]:
        """Status, its words, headers and body, all within TIMEOUT; a socket's own limit begins anew with each byte.

        Raises:
            OSError, http.client.HTTPException: there is no whole answer; the connection is closed.
        """
        late = threading.Event()

        def give_up() -> None:
            late.set()
            # not SSLSocket's own, which takes the TLS session from under the one that reads
            with contextlib.suppress(OSError):
                if (plain := self._connection.sock) is not None:
                    socket.socket.shutdown(plain, socket.SHUT_RDWR)

        watch = threading.Timer(TIMEOUT, give_up)
        watch.start()
        try:
            self._connection.request(method, path, body=body, headers=headers)
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            # the socket's own limit is the same, and may be noticed first
            if late.is_set() or isinstance(error, TimeoutError):
                raise TimeoutError(f"no whole answer within {TIMEOUT:.0f} s") from error
            raise
        finally:
            watch.cancel()
        return (
            response.status,
            response.reason,
            {key.lower(): value for key, value in response.getheaders()},
            content,
        )

    def _refused(self, what: str, said: Exception | str) -> UserError:
        return UserError(
            f"the site's registry at {self.address}:{REGISTRY_PORT} does not answer for {what}: {said}",
            fix="run the hosts layer (`strata up SITE --layer hosts`) and look at the registry's unit on its host",
        )

    def digest(self, repository: str, tag: str) -> str | None:
        """Digest of a tag's manifest, None where the registry has none."""
        status, headers, _ = self._request(
            "HEAD", f"/v2/{repository}/manifests/{tag}", f"{repository}:{tag}", headers={"Accept": MANIFEST_TYPES}
        )
        if status == http.HTTPStatus.NOT_FOUND:
            return None
        digest = headers.get("docker-content-digest")
        if status != http.HTTPStatus.OK or digest is None:
            said = status if status != http.HTTPStatus.OK else f"{status} without a digest"
            raise UserError(f"the registry answered {said} to a question for {repository}:{tag}")
        return digest

    def tag(self, repository: str, digest: str, tag: str) -> bool:
        """Gives a manifest that is there one more tag; returns whether that changed anything."""
        if self.digest(repository, tag) == digest:
            return False
        what = f"{repository}:{tag}"
        status, headers, manifest = self._request(
            "GET", f"/v2/{repository}/manifests/{digest}", what, headers={"Accept": MANIFEST_TYPES}
        )
        if status == http.HTTPStatus.OK:
            kind = {"Content-Type": headers.get("content-type", MANIFEST_TYPES.partition(",")[0])}
            status, _, _ = self._request("PUT", f"/v2/{repository}/manifests/{tag}", what, manifest, kind)
        if status not in (http.HTTPStatus.OK, http.HTTPStatus.CREATED):
            raise UserError(f"the registry answered {status} to the tag {repository}:{tag}")
        return True


class _NamedConnection(http.client.HTTPSConnection):
    """Connects to an address and checks the certificate against a name."""

    def __init__(self, address: str, host_name: str, context: ssl.SSLContext) -> None:
        super().__init__(address, REGISTRY_PORT, timeout=TIMEOUT, context=context)
        self._tls = context
        self._name = host_name

    def connect(self) -> None:
        """Called by http.client at the first request."""
        plain = socket.create_connection((self.host, self.port), self.timeout)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self._name)
