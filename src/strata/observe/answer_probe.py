"""Asks services of the host it runs on whether they answer; sent there over SSH, so it needs nothing but Python.

Takes `{"address": ADDRESS, "seconds": SECONDS, "ports": {PORT: PROTOCOL}, "dns": BOOLEAN}` as its argument and prints,
for each port, `answer PORT yes` or `answer PORT no`, and `certificate PORT BASE64` (DER) where the service showed one;
`answer dns yes` or `answer dns no` where it was to ask the cluster's DNS.
"""

from __future__ import annotations

import base64
import json
import re
import select
import socket
import ssl
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

SSL_REQUEST = bytes.fromhex("0000000804d2162f")
"""PostgreSQL's SSLRequest, which the server answers with one byte before anyone logs in."""
NFS_NULL = bytes.fromhex("80000028000000010000000000000002000186a300000004" + "00000000" * 5)
"""Procedure 0 of NFSv4 in one record of ONC RPC (RFC 5531), which a server answers without credentials."""


KUBELET_FILES = (Path("/var/lib/kubelet/config.yaml"), Path("/etc/kubernetes/kubelet-config.yaml"))
"""Where kubeadm and Kubespray write what the kubelet passes to pods."""
DNS_QUERY = b"\0\7\1\0\0\1" + bytes(6) + b"\nkubernetes\7default\3svc\7cluster\5local\0\0\1\0\1"
"""A record of kubernetes.default.svc.cluster.local; any answer will do."""
DNS_CLIENTS = 8
"""Ports that are queried from: each may be another pod's."""


def ask_dns(address: str, seconds: float) -> bool:
    """Whether every pod of the cluster's DNS answers, as far as chance finds them; each is asked twice."""
    family = socket.getaddrinfo(address, 53)[0][0]
    with ExitStack() as stack:
        clients = [stack.enter_context(socket.socket(family, socket.SOCK_DGRAM)) for _ in range(DNS_CLIENTS)]
        waiting = set(clients)
        for _ in range(2):
            for client in waiting:
                client.sendto(DNS_QUERY, (address, 53))
            end = time.monotonic() + seconds / 2
            while waiting and (left := end - time.monotonic()) > 0:
                waiting -= set(select.select(list(waiting), [], [], left)[0])
        return not waiting


def dns_address() -> str | None:
    """Of the cluster's DNS, as the kubelet gives it to pods; None on a host that is not a node yet."""
    for file in KUBELET_FILES:
        if file.is_file() and (match := re.search(r"^clusterDNS:\s*-\s*(\S+)", file.read_text(), re.MULTILINE)):
            return match[1].strip("\"'")
    return None


def ask_http(connection: socket.socket, _: str) -> bytes:
    """Any status line will do."""
    connection.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
    return expect(connection.recv(5) == b"HTTP/")


def ask_tls(connection: socket.socket, address: str) -> bytes:
    """A handshake, or the server's alert; returns its certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(connection, server_hostname=address, do_handshake_on_connect=False) as secured:
        try:
            secured.do_handshake()
        except ssl.SSLEOFError:
            raise
        except ssl.SSLError:  # an alert is an answer, too
            return b""
        return secured.getpeercert(binary_form=True) or b""


def ask_postgresql(connection: socket.socket, _: str) -> bytes:
    """Whether or not it offers TLS, it answers."""
    connection.sendall(SSL_REQUEST)
    return expect(connection.recv(1) in (b"S", b"N"))


def ask_nfs(connection: socket.socket, _: str) -> bytes:
    """The call that does nothing."""
    connection.sendall(NFS_NULL)
    return expect(connection.recv(64) != b"")


def expect(answered: bool) -> bytes:
    """No certificate.

    Raises:
        ConnectionError: the service has not answered as its protocol wants.
    """
    if not answered:
        raise ConnectionError
    return b""


PROTOCOLS: dict[str, Callable[[socket.socket, str], bytes]] = {
    "http": ask_http,
    "tls": ask_tls,
    "postgresql": ask_postgresql,
    "nfs": ask_nfs,
}


def ask(address: str, port: int, protocol: str, seconds: float) -> list[str]:
    """The lines to print for one port."""
    try:
        with socket.create_connection((address, port), timeout=seconds) as connection:
            shown = PROTOCOLS[protocol](connection, address)
    except OSError:
        return [f"answer {port} no"]
    return [f"answer {port} yes", *([f"certificate {port} {base64.b64encode(shown).decode()}"] if shown else ())]


def main() -> None:
    """Answers one question."""
    question = json.loads(sys.argv[1])
    ports: dict[str, str] = question["ports"]

    def look(port: str) -> list[str]:
        return ask(question["address"], int(port), ports[port], question["seconds"])

    with ThreadPoolExecutor(len(ports) + 1) as pool:
        address = dns_address() if question["dns"] else None
        dns = pool.submit(ask_dns, address, question["seconds"]) if address else None
        for lines in pool.map(look, ports):
            print(*lines, sep="\n")
        if dns is not None:
            print("answer dns", "yes" if dns.result() else "no")


if __name__ == "__main__":
    main()
