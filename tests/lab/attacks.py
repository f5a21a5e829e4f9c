"""Who must not reach what: the table of docs/security.md, and the program that tries it from where an attacker is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from strata.catalogue.needs.database import KINE_DATABASE
from strata.inventory import port_numbers
from strata.inventory.clients import NODES, OPERATOR
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with

CLOSED = "closed"
"""No connection."""
REFUSED = "refused"
"""The server answers, and refuses what was asked for."""
OPEN = "open"
"""The attack works; or, of an allowed client, the probe does."""

TENANT, NOTEBOOK, BARE = "pod of a tenant", "notebook of another tenant", "pod without network policies"
SERVICE = "pod of a service without a database"
INSTANCE, OUTSIDE, NAMED = "another project's instance", "address not in `access:`", "address in `access:`, no key"
ATTACKERS = (TENANT, NOTEBOOK, SERVICE, BARE, INSTANCE, OUTSIDE, NAMED)

# reads `{name: probe}` and writes `{name: result}`, JSON
PROBE = r"""
import base64, concurrent.futures, http.client, json, socket, ssl, struct, sys

unverified = ssl.create_default_context()
unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE

def http_status(stream, probe):
    headers = {"Host": probe["address"]}
    if probe.get("login"):
        headers["Authorization"] = "Basic " + base64.b64encode(probe["login"].encode()).decode()
    connection = http.client.HTTPConnection(probe["address"])
    connection.sock = stream
    connection.request(probe.get("method", "GET"), probe["path"], headers=headers)
    return connection.getresponse().status

def postgresql(stream, probe):
    stream.sendall(struct.pack("!ii", 8, 80877103))
    if stream.recv(1) != b"S":
        return "no TLS"
    with unverified.wrap_socket(stream) as tls:
        body = b"user\0%b\0database\0%b\0\0" % (probe["user"].encode(), probe["user"].encode())
        tls.sendall(struct.pack("!ii", 8 + len(body), 3 << 16) + body)
        # R asks for the password of a client that may come from there, E is the refusal
        return {b"R": "open", b"E": "refused"}[tls.recv(1)]

def nfs(stream):
    # NFSv4's NULL call (RFC 7530): an answer is more than a connection
    stream.sendall(struct.pack("!11I", 1 << 31 | 40, 1, 0, 2, 100003, 4, 0, 0, 0, 0, 0))
    return "open" if stream.recv(64) else "refused"

def evidence(stream):
    try:
        stream.sendall(b"GET / HTTP/1.0\r\n\r\n")
        answer = stream.recv(200)
    except OSError as error:
        answer = error
    return f" from {stream.getsockname()} to {stream.getpeername()}: {answer!r}"

def attempt(probe):
    source = (probe["source"], 0) if probe.get("source") else None
    try:
        stream = socket.create_connection((probe["address"], probe["port"]), timeout=4, source_address=source)
    except OSError:
        return "closed"
    with stream:
        stream.settimeout(60)  # who is connected has an answer, on a busy machine a late one
        if probe["kind"] == "tcp":
            return "open" + (evidence(stream) if probe.get("evidence") else "")
        if probe["kind"] == "nfs":
            return nfs(stream)
        if probe["kind"] == "postgresql":
            return postgresql(stream, probe)
        with unverified.wrap_socket(stream) as tls:
            status = http_status(tls, probe)
    return "refused" if status in (401, 403, 405) else "open" if status < 500 else str(status)

probes = json.load(sys.stdin)
with concurrent.futures.ThreadPoolExecutor(len(probes)) as pool:  # what is closed takes the whole timeout
    print(json.dumps(dict(zip(probes, pool.map(attempt, probes.values())))))
"""


@dataclass(frozen=True)
class Target:
    """What an attacker wants.

    Args:
        name: in the table.
        role: of the host that has it.
        probe: `kind`, `port` and what the kind needs; `login` is a user, whose password is filled in.
        expected: by attacker; several where a network policy may close what the server would refuse.
        allowed: role of a host whose same probe must be OPEN, else CLOSED would show nothing.
    """

    name: str
    role: str
    probe: Mapping[str, Any]
    expected: Mapping[str, tuple[str, ...]]
    allowed: str | None = None


def _everywhere(result: str, **others: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(ATTACKERS, (result,)) | others


def _only_named(result: str) -> dict[str, tuple[str, ...]]:
    return _everywhere(CLOSED) | {NAMED: (result,)}


def _registry(name: str, port: int, path: str, method: str = "GET", login: str | None = None) -> Target:
    probe = {"kind": "https", "port": port, "path": path, "method": method, "login": login}
    return Target(name, "registry", probe, _only_named(REFUSED))


CATALOG, UPLOADS = "/v2/_catalog", "/v2/attack/blobs/uploads/"
MANIFEST = "/v2/attack/manifests/sha256:" + "0" * 64
WRONG = "wrong"
"""A login with the right user and another password."""

TARGETS = (
    _registry("registry: list images, anonymously", port_numbers.REGISTRY, CATALOG),
    _registry("registry: list images, wrong password", port_numbers.REGISTRY, CATALOG, login=WRONG),
    _registry("registry: pull, anonymously", port_numbers.REGISTRY, MANIFEST),
    _registry("registry: push, anonymously", port_numbers.REGISTRY_PUSH, UPLOADS, "POST"),
    _registry("registry: push, wrong password", port_numbers.REGISTRY_PUSH, UPLOADS, "POST", WRONG),
    _registry("registry: push to 5000, a node's password", port_numbers.REGISTRY, UPLOADS, "POST", NODES),
    _registry("registry: push to 5001, a node's password", port_numbers.REGISTRY_PUSH, UPLOADS, "POST", NODES),
    _registry("registry: delete on 5000, a node's password", port_numbers.REGISTRY, MANIFEST, "DELETE", NODES),
    _registry("registry: delete on 5001, a node's password", port_numbers.REGISTRY_PUSH, MANIFEST, "DELETE", NODES),
    _registry("registry: delete, anonymously", port_numbers.REGISTRY_PUSH, MANIFEST, "DELETE"),
    Target("NFS: a call", "nfs_server", {"kind": "nfs", "port": port_numbers.NFS}, _everywhere(CLOSED), "kube_node"),
    Target(
        "PostgreSQL: kine's database",
        "postgresql",
        {"kind": "postgresql", "port": port_numbers.POSTGRESQL, "user": KINE_DATABASE},
        _everywhere(CLOSED),
        "kine",
    ),
    Target(
        "node exporter",
        "load_balancer",
        {"kind": "tcp", "port": port_numbers.NODE_EXPORTER},
        _everywhere(CLOSED),
        "kube_node",
    ),
    Target("kine", "kine", {"kind": "tcp", "port": port_numbers.DATASTORE}, _everywhere(CLOSED), "kube_control_plane"),
    *(
        Target(
            f"kubelet of {what}, anonymously", role, {"kind": "https", "port": port_numbers.KUBELET, "path": "/pods"},
            _everywhere(CLOSED),
        )
        for what, role in (("a worker", "kube_node"), ("the control plane", "kube_control_plane"))
    ),
    Target(
        "Kubernetes API, anonymously",
        "kube_control_plane",
        {"kind": "https", "port": port_numbers.KUBERNETES_API, "path": "/api/v1/namespaces"},
        _only_named(REFUSED) | {BARE: (REFUSED,)},
    ),
    Target("SSH of a host", "load_balancer", {"kind": "tcp", "port": port_numbers.SSH}, _only_named(OPEN)),
)  # fmt: skip
"""SSH connects from named addresses, its key is another matter."""
METADATA = Target(
    "metadata service 169.254.169.254", "kube_node", {"kind": "tcp", "port": 80},
    dict.fromkeys((TENANT, NOTEBOOK, SERVICE, BARE), (CLOSED,)), "kube_node",
)  # fmt: skip
"""Of pods only: instances are meant to read their own. The role pod_network closes it."""
METADATA_ADDRESS = "169.254.169.254"


def probes_of(context: SiteContext) -> dict[str, dict[str, Any]]:
    """Every target's probe by name, with its address."""
    addresses = {t.role: hosts_with(t.role, context.site, context.cloud_outputs)[0].address for t in TARGETS}
    return {t.name: {**t.probe, "address": addresses[t.role]} for t in TARGETS}


def keyless(probes: Mapping[str, Mapping[str, Any]]) -> str:
    """Input of PROBE where no key should matter: none is taken there."""
    return json.dumps({name: with_password(probe, lambda _: "none") for name, probe in probes.items()})


def with_metadata(probes: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The probes, and the one that only pods try; should anything answer there, the result states what."""
    return {**probes, METADATA.name: {**METADATA.probe, "address": METADATA_ADDRESS, "evidence": True}}


def wrong(attacker: str, actual: Mapping[str, str]) -> dict[str, str]:
    """The cells of an attacker's column that are not as the table states."""
    expected = {target.name: target.expected[attacker] for target in (*TARGETS, METADATA) if target.name in actual}
    assert expected.keys() >= {target.name for target in TARGETS}
    return {name: actual[name] for name, results in expected.items() if actual[name] not in results}


def with_password(probe: Mapping[str, Any], password: Callable[[str], str]) -> dict[str, Any]:
    """A probe whose login has a password.

    Args:
        probe: of a target.
        password: of a user of the registry.
    """
    login = probe.get("login")
    if login is None:
        return dict(probe)
    if login == WRONG:
        user = OPERATOR if probe["port"] == port_numbers.REGISTRY_PUSH else NODES
        return {**probe, "login": f"{user}:not the password"}
    return {**probe, "login": f"{login}:{password(login)}"}


def table() -> str:
    """The Markdown table of docs/security.md."""
    lines = ["| target | " + " | ".join(ATTACKERS) + " |", "|---" * (len(ATTACKERS) + 1) + "|"]
    for target in (*TARGETS, METADATA):
        cells = (" or ".join(target.expected.get(attacker, ("–",))) for attacker in ATTACKERS)
        lines.append(f"| {target.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
