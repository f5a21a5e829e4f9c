"""What Strata asks of the site's image registry as its operator, over its HTTP interface."""

from __future__ import annotations

import base64
import json
import time
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Self

import requests

from strata.access.https import named_session
from strata.errors import UserError
from strata.inventory.clients import OPERATOR
from strata.inventory.port_numbers import REGISTRY_PUSH
from strata.progress import Progress, Silent
from strata.site.outputs import write_private

MANIFEST_TYPES = ", ".join(
    (
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
TIMEOUT = 15.0
"""Seconds the registry may take for one answer, from the question to its last byte."""
PATIENCE = 20.0
"""Seconds in which it may fail to answer, or answer with an error of its own, before that is reported."""
PAUSE = 0.5
"""Seconds between two attempts."""


class RegistryClient:
    """One kept connection to a registry; a context manager.

    Args:
        address: IP address of the registry.
        host_name: the name in its certificate.
        ca_file: PEM file of the authority that signed it.
        password: the operator's.
        progress: receives status messages.
    """

    def __init__(
        self, address: str, host_name: str, ca_file: Path, password: str, progress: Progress | None = None
    ) -> None:
        self.endpoint = f"{address}:{REGISTRY_PUSH}"
        self._ca_file = ca_file
        self._progress: Progress = progress or Silent()
        self._session = named_session(ca_file, host_name)
        self._session.auth = (OPERATOR, password)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.close()

    def write_credentials(self, directory: Path) -> None:
        """Writes what skopeo needs, `ca.crt` and `auth.json`; passwords among its arguments would be seen by all."""
        (directory / "ca.crt").write_bytes(self._ca_file.read_bytes())
        auth = base64.b64encode(":".join(self._session.auth or ()).encode()).decode()  # type: ignore[arg-type]  # a pair
        write_private(directory / "auth.json", json.dumps({"auths": {self.endpoint: {"auth": auth}}}))

    def _request(
        self, method: str, path: str, what: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[requests.Response, bytes]:
        """Response and body; asked again when the registry is on its way up or overloaded.

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
                response, content = self._ask_once(method, path, body, headers)
            except (requests.RequestException, TimeoutError) as error:
                late = isinstance(error, TimeoutError | requests.Timeout) or "timed out" in str(error)
                said = f"no whole answer within {TIMEOUT:.0f} s" if late else error
                if "CERTIFICATE_VERIFY_FAILED" in str(error):
                    raise self._refused(what, said) from error  # another answer is not to be expected
            else:
                if response.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
                    return response, content
                said = f"{response.status_code} {response.reason}"
            if time.monotonic() > end:
                raise self._refused(what, said)
            self._progress.update(f"asking the registry at {self.endpoint} again for {what}: {said}")
            time.sleep(PAUSE)

    def _ask_once(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str] | None
    ) -> tuple[requests.Response, bytes]:
        end = time.monotonic() + TIMEOUT
        parts = []
        with self._session.request(
            method, f"https://{self.endpoint}{path}", data=body, headers=headers, timeout=TIMEOUT, stream=True
        ) as response:
            # a socket's limit restarts with each byte
            for byte in response.iter_content(1):
                parts.append(byte)
                if time.monotonic() > end:
                    raise TimeoutError
        return response, b"".join(parts)

    def _refused(self, what: str, said: Exception | str) -> UserError:
        return UserError(
            f"the site's registry at {self.endpoint} does not respond for {what}: {said}",
            fix="run the hosts layer (`strata up SITE --layer hosts`) and look at the registry's unit on its host",
        )

    def digest(self, repository: str, tag: str) -> str | None:
        """Digest of a tag's manifest, None where the registry has none."""
        response, _ = self._request(
            "HEAD", f"/v2/{repository}/manifests/{tag}", f"{repository}:{tag}", headers={"Accept": MANIFEST_TYPES}
        )
        if response.status_code == HTTPStatus.NOT_FOUND:
            return None
        digest = response.headers.get("docker-content-digest")
        if response.status_code != HTTPStatus.OK or digest is None:
            said = response.status_code if response.status_code != HTTPStatus.OK else "200 without a digest"
            raise UserError(f"the registry answered {said} to a question for {repository}:{tag}")
        return digest

    def tag(self, repository: str, digest: str, tag: str) -> bool:
        """Gives a manifest that is there one more tag; returns whether that changed anything."""
        if self.digest(repository, tag) == digest:
            return False
        what = f"{repository}:{tag}"
        response, manifest = self._request(
            "GET", f"/v2/{repository}/manifests/{digest}", what, headers={"Accept": MANIFEST_TYPES}
        )
        if response.status_code == HTTPStatus.OK:
            kind = {"Content-Type": response.headers.get("content-type", MANIFEST_TYPES.partition(",")[0])}
            response, _ = self._request("PUT", f"/v2/{repository}/manifests/{tag}", what, manifest, kind)
        if response.status_code not in (HTTPStatus.OK, HTTPStatus.CREATED):
            raise UserError(f"the registry answered {response.status_code} to the tag {repository}:{tag}")
        return True
