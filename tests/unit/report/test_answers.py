"""What hangs, and what expires: services are asked on their hosts by the probe, and `strata status` names them."""

from __future__ import annotations

import json
import re
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from strata.observe import Observation, answer_probe
from strata.observe.facts import NOT_UP, ServiceFacts
from strata.observe.hosts import asked_ports, parse_ports
from strata.observe.status import print_status, site_status
from strata.report import build_report
from strata.report.drift import silent_layers
from strata.report.page import render_page
from strata.roles import DIRECTORY, Port, roles
from strata.site.context import SiteContext
from strata.site.secrets.pki import create_authority, issue, validity

See = Callable[..., Observation]
UNTIL = datetime(2027, 3, 4, 5, 6, tzinfo=UTC)


@contextmanager
def server(answer: Callable[[socket.socket], None] | None) -> Iterator[int]:
    """A TCP port; without an answer, the kernel takes connections and nobody reads them, as of a stopped process."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        if answer is not None:

            def serve() -> None:
                connection, _ = listening.accept()
                with connection:
                    answer(connection)

            threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]


def probe(port: int, protocol: str) -> list[list[str]]:
    """Words of each line that the probe prints on the host."""
    question = {"address": "127.0.0.1", "seconds": 0.5, "ports": {port: protocol}, "dns": False}
    command = [sys.executable, "-", json.dumps(question)]
    text = Path(answer_probe.__file__).read_text()
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=60)
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.parametrize("protocol", answer_probe.PROTOCOLS)
def test_a_stopped_process_does_not_respond(protocol: str) -> None:
    with server(None) as port:
        assert probe(port, protocol) == [["answer", str(port), "no"]]
    assert probe(port, protocol) == [["answer", str(port), "no"]]


@pytest.mark.parametrize(
    ("protocol", "query", "reply", "answered"),
    [
        ("http", b"HEAD / HTTP/1.0\r\n\r\n", b"HTTP/1.0 401 Unauthorized\r\n\r\n", "yes"),
        ("http", b"HEAD / HTTP/1.0\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n", "no"),
        ("postgresql", answer_probe.SSL_REQUEST, b"S", "yes"),
        ("postgresql", answer_probe.SSL_REQUEST, b"", "no"),
        ("nfs", answer_probe.NFS_NULL, b"\x80\0\0\x18\0\0\0\1\0\0\0\1" + bytes(16), "yes"),
        ("nfs", answer_probe.NFS_NULL, b"", "no"),
    ],
)
def test_a_service_answers_in_its_protocol(protocol: str, query: bytes, reply: bytes, answered: str) -> None:
    heard: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        heard.append(connection.recv(len(query)))
        connection.sendall(reply)

    with server(answer) as port:
        assert probe(port, protocol) == [["answer", str(port), answered]]
    assert heard == [query]


def test_the_certificate_that_a_service_shows_has_an_end(tmp_path: Path) -> None:
    made = issue(*create_authority("lab"), "kine", ["kine.lab.test"], ["127.0.0.1"])
    file = tmp_path / "kine.pem"
    file.write_text(made.certificate + made.private_key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(file)

    def answer(connection: socket.socket) -> None:
        with tls.wrap_socket(connection, server_side=True) as secured:
            secured.recv(1)

    with server(answer) as port:
        lines = probe(port, "tls")
    assert lines[0] == ["answer", str(port), "yes"]
    asked = Port(name="kine", port=port, unit="kine", clients=("hosts",), protocol="tls")
    ports = parse_ports([asked], "\n".join(map(" ".join, lines)))
    assert ports == {"silent": {}, "certificates": {"kine": validity(made.certificate).ends}}


def test_every_unit_that_listens_is_asked_or_has_a_reason() -> None:
    """etcd's port between its members, Slurm's and kept ones of other protocols have no question."""
    unasked = {
        (name, port.unit)
        for name, role in roles().items()
        for unit in role.units
        for port in role.ports
        if port.unit == unit.name and not any(p.protocol for p in role.ports if p.unit == unit.name)
    }
    assert unasked == {("slurm_controller", "slurmctld"), ("slurm_node", "slurmd")}


def test_a_replaced_unit_and_an_unmet_condition_are_not_asked() -> None:
    assert [p.unit for p in asked_ports(["postgresql"], ())] == ["postgresql@*-main"]
    assert {p.unit for p in asked_ports(["postgresql", "patroni"], ["replicated_postgresql"])} == {"etcd", "patroni"}
    assert {p.port for p in asked_ports(["load_balancer"], ())} == {80}
    assert (DIRECTORY / "load_balancer").is_dir()


def hung(seen: Observation, **facts: object) -> Observation:
    """The observation, with facts about services-1."""
    host = seen.hosts["services-1"].model_copy(update=facts)
    return seen.model_copy(update={"hosts": dict(seen.hosts) | {"services-1": host}})


def bad(context: SiteContext, seen: Observation) -> list[tuple[str, str, str, str]]:
    """Layer, object, state and command of what is not in the desired state."""
    return [(o.layer, o.object, o.found, o.command) for o in site_status(context, seen) if not o.healthy]


def test_a_unit_that_hangs_is_named_with_what_to_run(
    context: SiteContext, running: See, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = {"kine": "no answer on port 2379 within 5 s", "kubernetes-api": "no answer on port 6443 within 5 s"}
    seen = hung(running(), silent=answers)
    command = "journalctl --unit 'kine.service' --lines 50; systemctl restart 'kine.service'"
    assert bad(context, seen) == [
        ("hosts", "services-1: kine", "active, but no answer on port 2379 within 5 s", command),
        ("hosts", "services-1: kubernetes-api", "no answer on port 6443 within 5 s", ""),
    ]
    print_status(Console(width=1000), context, site_status(context, seen))
    said = capsys.readouterr().out
    assert f"services-1: kine: {command}\n" in said
    assert re.search(r"\n2 of \d+ not in the desired state; the commands show why\n\Z", said), said[-200:]
    assert command.replace("'", "&#39;") in render_page(build_report(context, observation=seen))


def test_what_up_repairs_is_distinguished_from_what_hangs(context: SiteContext, running: See) -> None:
    seen = running()
    stopped = dict(seen.hosts["services-1"].units) | {"haproxy": "inactive"}
    assert build_report(context, observation=hung(seen, units=stopped)).remedy == "`strata up lab` repairs them"
    both = hung(seen, units=stopped, silent={"kine": "no answer on port 2379 within 5 s"})
    assert (
        build_report(context, observation=both).remedy
        == "the commands show why; `strata up lab` repairs what is missing or stopped"
    )


def test_a_certificate_is_named_two_weeks_before_its_end(context: SiteContext, running: See) -> None:
    now = datetime.now(UTC)
    soon, later, past = now + timedelta(days=13), now + timedelta(days=15), now - timedelta(days=1)
    seen = hung(running(), certificates={"kine": soon, "docker-registry": later, "kubelet": past})
    seen = seen.model_copy(update={"services": ServiceFacts(ends=soon)})
    assert bad(context, seen) == [
        ("hosts", "services-1: certificate of kine", f"expires {soon:%Y-%m-%d %H:%M} UTC", ""),
        ("hosts", "services-1: certificate of kubelet", f"expired {past:%Y-%m-%d %H:%M} UTC", ""),
        ("platform", "certificate of the ingress controller", f"expires {soon:%Y-%m-%d %H:%M} UTC", ""),
    ]


def test_services_that_do_not_answer_their_users_are_named(context: SiteContext, running: See) -> None:
    silent = {"https://jupyter.lab.strata.test/hub/health": "HTTP 503", "htcondor: negotiator": "no answer within 15 s"}
    seen = running().model_copy(update={"services": ServiceFacts(silent=silent)})
    assert bad(context, seen) == [
        ("platform", "jupyterhub: https://jupyter.lab.strata.test/", "HTTP 503", ""),
        ("platform", "htcondor: negotiator", "no answer within 15 s", ""),
    ]
    answers = {o.object: o.found for o in site_status(context, running()) if o.wanted == "answers"}
    assert set(answers.values()) == {"answers"}
    assert {name.partition(":")[0] for name in answers} == {
        "accounting",
        "authenticator",
        "htcondor",
        "hub-mirror",
        "inference",
        "jupyterhub",
        "keycloak",
        "ml-hub",
        "object-storage",
        "portal",
        "prometheus-server",
        "tapis-pods",
    }


def test_layers_that_did_not_respond_are_not_searched_for_drift(running: See) -> None:
    seen = running()
    silent = seen.model_copy(update={"cluster": seen.cluster.model_copy(update={"reason": "unreachable: no answer"})})
    assert silent_layers(seen) == {}
    assert silent_layers(silent) == dict.fromkeys(("cluster", "platform"), "unreachable: no answer")
    planned = seen.model_copy(update={"cluster": seen.cluster.model_copy(update={"reason": NOT_UP})})
    assert silent_layers(planned) == {}
