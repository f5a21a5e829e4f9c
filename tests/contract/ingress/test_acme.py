"""Certificates that the ingress controller requests: the real Traefik, its chart's arguments, a real ACME server."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import requests
import yaml

from strata.models.platform import IngressCertificate
from strata.progress import Silent
from strata.site.secrets import pki
from strata.toolchain import ensure
from strata_bench.services import free_port
from strata_bench.traefik import arguments, render, running, values
from strata_bench.waiting import eventually

HOST = "notebook.acme.example.org"
WAIT = 300


@pytest.fixture(scope="module")
def programs() -> dict[str, str]:
    """The ACME server, and a name server that has loopback's address for every name."""
    tools = ensure(("pebble", "pebble-challtestsrv"), Silent())
    return {name: str(tool.path) for name, tool in tools.items()}


@contextmanager
def acme_server(programs: dict[str, str], directory: Path, port: int, validated: int) -> Iterator[Path]:
    """An ACME server that connects to a port of loopback for its challenges; gives its root certificate.

    Args:
        programs: name to path.
        directory: with `server.crt` and `server.key` of its own address.
        port: of its directory.
        validated: the port that replaces 443.
    """
    names, management = free_port(), free_port()
    settings = {
        "listenAddress": f"127.0.0.1:{port}",
        "managementListenAddress": f"127.0.0.1:{management}",
        "certificate": str(directory / "server.crt"),
        "privateKey": str(directory / "server.key"),
        "httpPort": free_port(),
        "tlsPort": validated,
    }
    (directory / "pebble.json").write_text(json.dumps({"pebble": settings}))
    name_server = [programs["pebble-challtestsrv"], "-dnsserver", f"127.0.0.1:{names}", "-defaultIPv6", ""]
    name_server += ["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""]
    name_server += ["-management", f"127.0.0.1:{free_port()}"]
    server = [programs["pebble"], "-config", str(directory / "pebble.json"), "-dnsserver", f"127.0.0.1:{names}"]
    variables = os.environ | {"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0"}
    root = directory / "root.pem"

    def responds() -> bool:
        try:
            response = requests.get(
                f"https://127.0.0.1:{management}/roots/0", verify=str(directory / "ca.pem"), timeout=60
            )
        except requests.ConnectionError:
            return False
        root.write_text(response.text)
        return response.ok

    with ExitStack() as stack:
        log = stack.enter_context((directory / "acme.log").open("w"))
        for command in (name_server, server):
            process = subprocess.Popen(command, env=variables, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)
        eventually(responds, WAIT, "the ACME server responds")
        yield root


def served(url: str, root: Path) -> str | None:
    """Serial number of the certificate at a URL's port, if clients of that root accept it for the host."""
    port = int(url.rpartition(":")[2])
    context = ssl.create_default_context(cafile=str(root))
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=60) as connection,
            context.wrap_socket(connection, server_hostname=HOST) as secure,
        ):
            return str((secure.getpeercert() or {})["serialNumber"])
    except (ssl.SSLError, ConnectionError):
        return None


@pytest.mark.nightly
def test_a_certificate_is_requested_once_and_kept(programs: dict[str, str], tmp_path: Path) -> None:
    """By TLS-ALPN-01, from a directory whose certificate no public CA signed; the next pod finds it in the volume."""
    authority, key = pki.create_authority("contract-tests")
    own = pki.issue(authority, key, "127.0.0.1", [], ["127.0.0.1"])
    for name, text in (("server.crt", own.certificate), ("server.key", own.private_key), ("ca.pem", own.ca)):
        (tmp_path / name).write_text(text)
    port = free_port()
    certificate = IngressCertificate(
        source="acme", email="operators@example.org", directory=f"https://127.0.0.1:{port}/dir"
    )
    routes = tmp_path / "routes.yaml"
    routes.write_text("{}")
    objects = render(values(certificate, own.ca))
    assert objects["ConfigMap", "acme-authority"]["data"] == {"ca.pem": own.ca}
    given = [a for a in sorted(arguments(objects)) if "kubernetes" not in a]
    given.append(f"--providers.file.filename={routes}")
    router = {"rule": f"Host(`{HOST}`)", "service": "noop@internal"}
    with (
        running(given, tmp_path) as (url, _, _),
        acme_server(programs, tmp_path, port, int(url.rpartition(":")[2])) as root,
    ):
        assert served(url, root) is None, "the route asks for it"
        routes.write_text(yaml.safe_dump({"http": {"routers": {"notebook": router}}}))
        eventually(lambda: served(url, root) is not None, WAIT, "the certificate is served")
        first = served(url, root)
    assert (tmp_path / "acme.json").stat().st_mode & 0o777 == 0o600
    with running(given, tmp_path) as (url, _, _):
        eventually(lambda: served(url, root) is not None, WAIT, "the stored certificate is served, without the server")
        assert served(url, root) == first
