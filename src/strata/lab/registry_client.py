"""What Strata asks of the site's image registry, over its HTTP interface."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from strata.errors import UserError

MANIFEST_TYPES = ", ".join(
    (
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
REGISTRY_PORT = 5000
TIMEOUT = 15.0
"""Seconds the registry may take for one answer."""
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
    """

    def __init__(self, address: str, host_name: str, ca_file: Path) -> None:
        self.address = address
        self.host_name = host_name
        context = ssl.create_default_context(cafile=str(ca_file))
        self._connection = _NamedConnection(address, host_name, context)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def _request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers with lower-case names, body; asked again when the registry is on its way up or overloaded."""
        end = time.monotonic() + PATIENCE
        while True:
            said: Exception | str
            try:
                self._connection.request(method, path, body=body, headers=headers or {})
                response = self._connection.getresponse()
                content = response.read()
            except ssl.SSLError as error:
                self._connection.close()
                raise self._refused(error) from error  # another answer is not to be expected
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                said = error
            else:
                if response.status < http.HTTPStatus.INTERNAL_SERVER_ERROR:
                    return response.status, {key.lower(): value for key, value in response.getheaders()}, content
                said = f"{response.status} {response.reason}"
            if time.monotonic() > end:
                raise self._refused(said)
            time.sleep(PAUSE)

    def _refused(self, said: Exception | str) -> UserError:
        return UserError(
            f"the site's registry at {self.address}:{REGISTRY_PORT} does not answer: {said}",
            fix="run the hosts layer (`strata up SITE --layer hosts`) and look at the registry's unit on its host",
        )

    def digest(self, repository: str, tag: str) -> str | None:
        """Digest of a tag's manifest, None where the registry has none."""
        status, headers, _ = self._request(
            "HEAD", f"/v2/{repository}/manifests/{tag}", headers={"Accept": MANIFEST_TYPES}
        )
        if status == http.HTTPStatus.NOT_FOUND:
            return None
        if status != http.HTTPStatus.OK:
            raise UserError(f"the registry answered {status} to a question for {repository}:{tag}")
        return headers["docker-content-digest"]

    def tag(self, repository: str, digest: str, tag: str) -> bool:
        """Gives a manifest that is there one more tag; returns whether that changed anything."""
        if self.digest(repository, tag) == digest:
            return False
        status, headers, manifest = self._request(
            "GET", f"/v2/{repository}/manifests/{digest}", headers={"Accept": MANIFEST_TYPES}
        )
        if status == http.HTTPStatus.OK:
            status, _, _ = self._request(
                "PUT", f"/v2/{repository}/manifests/{tag}", manifest, {"Content-Type": headers["content-type"]}
            )
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
