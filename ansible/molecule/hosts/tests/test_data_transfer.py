"""Downloads with aria2: from a server in the other container, over HTTPS, interrupted and resumed."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import testinfra
import yaml

if TYPE_CHECKING:
    from testinfra.host import Host

VARIABLES = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "variables"
COMMON: dict[str, Any] = yaml.safe_load((VARIABLES / "all.yml").read_text())
ADDRESSES: dict[str, str] = {h["name"]: h["address"] for h in COMMON["base_hosts"]}
GROUP = COMMON["data_transfer_group_id"]
SECRET = COMMON["data_transfer_rpc_secret"]
PORT = 8443
CREDENTIAL = "signature-of-a-url"
SIZE = 4 << 20
SHA_256 = hashlib.sha256(bytes(range(256)) * (SIZE // 256)).hexdigest()
SECONDS = 60
# root is nobody on the export
AS_GROUP = "setpriv --reuid=65534 --regid={} --clear-groups {}"
# half of a file and then no more until /run/transfer-continue exists; with the certificate of this container's registry
SERVER = f"""
import http.server, os, re, ssl, time
DATA = bytes(range(256)) * ({SIZE} // 256)
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        if not self.path.startswith('/data'):
            return self.send_error(404)
        start = int((re.match('bytes=([0-9]+)-', self.headers.get('Range') or '') or [0, 0])[1])
        open('/run/transfer-log', 'a').write(f'{{start}}\\n')
        self.send_response(206 if start else 200)
        self.send_header('Accept-Ranges', 'bytes')
        self.send_header('Content-Length', str(len(DATA) - start))
        if start:
            self.send_header('Content-Range', f'bytes {{start}}-{{len(DATA) - 1}}/{{len(DATA)}}')
        self.end_headers()
        self.wfile.write(DATA[start : len(DATA) // 2])
        while not os.path.exists('/run/transfer-continue'):
            time.sleep(0.05)
        self.wfile.write(DATA[max(start, len(DATA) // 2) :])
server = http.server.ThreadingHTTPServer(('', {PORT}), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('/etc/docker/registry/server.pem')
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


class Node:
    """A transfer node, and the container that serves its downloads.

    Args:
        name: of the node.
    """

    def __init__(self, name: str) -> None:
        other = next(n for n in ADDRESSES if n != name)
        own = yaml.safe_load((VARIABLES / f"{name}.yml").read_text())
        self.host: Host = testinfra.get_host(f"podman://strata-molecule-{name}")
        self.server: Host = testinfra.get_host(f"podman://strata-molecule-{other}")
        self.url = f"https://{ADDRESSES[other]}:{PORT}"
        self.folder = "/".join(["/srv/data-transfer", *filter(None, [own.get("data_transfer_subfolder")])])

    def add(self, line: str, user: str = "ada") -> str:
        """Output of `data-transfer add` as an operator."""
        command = f"printf '%s\\n' {shlex.quote(line)} | data-transfer add"
        return str(self.host.check_output(f"su -c {shlex.quote(command)} {user}"))

    def wait(self, pattern: str) -> str:
        """The line of the list that the pattern is found in."""
        end = time.monotonic() + SECONDS
        while True:
            listed = str(self.host.run("data-transfer list").stdout)
            if (match := next((line for line in listed.splitlines() if re.search(pattern, line)), None)) is not None:
                return match
            assert time.monotonic() < end, f"{pattern} is not in: {listed}"
            time.sleep(0.1)

    def mode(self, name: str) -> str:
        """Permissions of a file and its group, as aria2 sees them."""
        command = f"setpriv --reuid=aria2 --regid={GROUP} --clear-groups stat --format='%a %g' {self.folder}/{name}"
        return str(self.host.check_output(command))

    def sha256(self, name: str) -> str:
        """SHA-256 of a file, as a member of the group reads it."""
        return str(self.host.check_output(AS_GROUP.format(GROUP, f"sha256sum {self.folder}/{name}"))).split()[0]

    def unit(self) -> dict[str, str]:
        """What systemd knows of aria2."""
        text = self.host.check_output("systemctl show aria2 --property=ActiveState,Result,NRestarts")
        return dict(line.split("=", 1) for line in text.splitlines())


# failures are the same wherever the folder is
BOTH, FIRST = sorted(ADDRESSES), sorted(ADDRESSES)[:1]


@pytest.fixture
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    transfer_node = Node(str(request.param))
    transfer_node.server.run_expect([0], "systemd-run --quiet --collect --unit transfer-server python3 -c %s", SERVER)
    try:
        yield transfer_node
    finally:
        transfer_node.server.check_output("systemctl stop transfer-server")
        transfer_node.server.check_output("rm -f /run/transfer-log /run/transfer-continue")


@pytest.mark.parametrize("node", BOTH, indirect=True)
def test_a_download_that_is_interrupted_resumes_and_becomes_readable(node: Node) -> None:
    host = node.host
    assert "queued" in node.add(f"{node.url}/data?key={CREDENTIAL} 2024/file {SHA_256}")
    node.wait(r"^active +(4[5-9]|50)% 2024/file")
    host.check_output("systemctl stop aria2")
    # aria2c exits with 7 here: an unfinished download
    assert node.unit() == {"ActiveState": "inactive", "Result": "success", "NRestarts": "0"}
    assert node.mode("2024/file") == f"600 {GROUP}"
    node.server.check_output("touch /run/transfer-continue")
    host.check_output("systemctl start aria2")
    node.wait("^complete +100% 2024/file")
    assert node.sha256("2024/file") == SHA_256
    requests = [int(line) for line in node.server.file("/run/transfer-log").content_string.split()]
    assert requests[0] == 0
    assert requests[-1] >= 1 << 20, "it began from the start"

    assert node.mode("2024/file") == f"640 {GROUP}"
    assert host.run(AS_GROUP.format(65534, f"cat {node.folder}/2024/file")).rc != 0
    # credentials of URLs are in the queue alone
    assert (host.file("/var/lib/aria2").mode, host.file("/var/lib/aria2/session").mode) == (0o700, 0o600)
    assert CREDENTIAL not in host.check_output("data-transfer list; journalctl --unit aria2")


@pytest.mark.parametrize("node", FIRST, indirect=True)
def test_failed_downloads_are_listed_and_a_stop_after_them_is_clean(node: Node) -> None:
    host = node.host
    node.server.check_output("touch /run/transfer-continue")
    node.add(f"{node.url}/nothing?key={CREDENTIAL} nothing")
    node.add(f"{node.url}/data wrong {'0' * 64}")
    assert "not found" in node.wait("^error .* nothing")
    assert "checksum" in node.wait("^error .* wrong")
    assert node.mode("wrong") == f"600 {GROUP}", "readable with a wrong checksum"
    # tried again, with the right one
    node.add(f"{node.url}/data wrong {SHA_256}")
    node.wait("^complete .* wrong")
    host.check_output("systemctl stop aria2")
    assert node.unit()["Result"] == "success"
    host.check_output("systemctl start aria2")
    node.wait("^error .* nothing")
    host.check_output("data-transfer remove nothing")
    assert "nothing" not in host.check_output("data-transfer list")
    assert CREDENTIAL not in host.file("/var/lib/aria2/session").content_string


@pytest.mark.parametrize("node", FIRST, indirect=True)
def test_a_crash_is_a_failure_and_the_queue_continues(node: Node) -> None:
    node.add(f"{node.url}/data crash {SHA_256}")
    node.wait("^active .* crash")
    node.host.check_output("kill -KILL $(pidof aria2c)")
    node.server.check_output("touch /run/transfer-continue")
    node.wait("^complete .* crash")
    assert int(node.unit()["NRestarts"]) == 1
    journal = node.host.check_output("journalctl --unit aria2 --output cat")
    assert "status=137" in journal
    assert node.sha256("crash") == SHA_256


@pytest.mark.parametrize("node", BOTH, indirect=True)
def test_rpc_requires_the_secret_which_no_other_user_can_read(node: Node) -> None:
    host = node.host
    call = (
        """curl --silent --data '{"jsonrpc":"2.0","id":1,"method":"aria2.getVersion"}' http://127.0.0.1:6800/jsonrpc"""
    )
    assert "Unauthorized" in host.check_output(call)
    listening = host.check_output("ss -Htln 'sport = :6800'").split("\n")
    assert {line.split()[3] for line in listening} == {"127.0.0.1:6800", "[::1]:6800"}
    assert host.file("/etc/aria2/aria2.conf").mode == 0o600
    assert SECRET not in host.check_output("ps -eo args")
    assert host.run(AS_GROUP.format(65534, "data-transfer list")).rc != 0
    assert host.run(AS_GROUP.format(GROUP, "data-transfer list")).rc == 0
