"""The services of the hosts layer, asked over the network as their clients do."""

from __future__ import annotations

import secrets as randomness
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import grpc
import psycopg
import pytest

from strata.access.ssh import ssh_arguments
from strata.catalogue.needs.database import databases
from strata.inventory.ports import DATASTORE, POSTGRESQL, REGISTRY
from strata.inventory.topology import database_secret
from strata.models import Site
from strata.roles import kernel_names, units_of
from strata.site.hosts import Host as SiteHost
from strata.site.hosts import hosts, hosts_with
from strata.site.outputs import CloudOutputs
from strata.site.paths import SitePaths
from strata.site.secrets import SecretStore

if TYPE_CHECKING:
    from testinfra.host import Host

TIMEOUT = 5.0
"""How long a service may take to answer, in seconds."""
GRACE = 45.0
"""An NFS server that was restarted lets clients reclaim locks first, in seconds."""
MOST_SKEW = 1.0
"""Difference of clocks that is still the same time, in seconds."""


@pytest.fixture(scope="module")
def everyone(site: Site, request: pytest.FixtureRequest) -> tuple[SiteHost, ...]:
    """Every host of the site."""
    outputs: CloudOutputs | None = request.getfixturevalue("context").cloud_outputs
    return hosts(site, outputs)


@pytest.fixture(scope="module")
def only(site: Site, request: pytest.FixtureRequest) -> Callable[[str], SiteHost]:
    """`only("postgresql")` → the first host that has the role; skips where there is none."""
    outputs: CloudOutputs | None = request.getfixturevalue("context").cloud_outputs

    def find(role: str) -> SiteHost:
        found = hosts_with(role, site, outputs)
        if not found:
            pytest.skip(f"site {site.name} has no host with the role {role}")
        return found[0]

    return find


def test_names_of_the_site_resolve_on_every_host(
    site: Site, everyone: tuple[SiteHost, ...], host: Callable[[str], Host]
) -> None:
    """Every host finds every other one, and the site's services, by name."""
    wanted = {f"{h.name}.{site.domain}": h.address for h in everyone}
    for machine in everyone:
        answers = host(machine.name).check_output(f"getent ahostsv4 {' '.join(wanted)} || true").splitlines()
        found = {line.split()[2]: line.split()[0] for line in answers if len(line.split()) == 3}
        assert found == wanted, f"/etc/hosts of {machine.name}"


def test_units_of_roles_are_active(everyone: tuple[SiteHost, ...], host: Callable[[str], Host]) -> None:
    """On every host, the systemd services of its roles are active."""
    for machine in everyone:
        others = kernel_names(machine.roles)
        for unit in units_of(machine.roles):
            states = host(machine.name).run(f"systemctl is-active '{unit}.service' '{others.get(unit, unit)}.service'")
            assert "active" in states.stdout.split(), f"{machine.name}: {unit} is {states.stdout.strip()}"


def test_hosts_have_the_same_time(everyone: tuple[SiteHost, ...], host: Callable[[str], Host]) -> None:
    """The clocks of all hosts agree with this machine's."""
    for machine in everyone:
        connection = host(machine.name)
        connection.check_output("true")
        before = time.time()
        theirs = float(connection.check_output("date +%s.%N"))
        after = time.time()
        assert before - MOST_SKEW <= theirs <= after + MOST_SKEW, f"the clock of {machine.name}"


def test_hosts_trust_the_site(
    everyone: tuple[SiteHost, ...], host: Callable[[str], Host], secrets: SecretStore
) -> None:
    """Every host trusts the site's certificate authority."""
    # two, while one takes the other's place
    authorities = _certificates(secrets.ca)
    for machine in everyone:
        trusted = host(machine.name).file("/etc/ssl/certs/ca-certificates.crt").content_string
        assert authorities <= _certificates(trusted), f"trust store of {machine.name}"


def _certificates(text: str) -> set[bytes]:
    """The certificates of a text in PEM, in DER."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=text)
    return set(context.get_ca_certs(binary_form=True))


def test_nfs_client_writes_and_reads(
    site: Site, only: Callable[[str], SiteHost], everyone: tuple[SiteHost, ...], host: Callable[[str], Host]
) -> None:
    """An NFS client on another host writes a file and reads it back; the server has it on disk."""
    server = only("nfs_server")
    if site.hosts.nfs is None:
        pytest.skip("the site exports nothing")
    other = next((h for h in everyone if h.name != server.name), server)
    client = host(other.name)
    for export in site.hosts.nfs.exports:
        name, text = f".strata-verify-{randomness.token_hex(4)}", randomness.token_hex(16)
        url = f"nfs://{server.address}/{export.name}/{name}?version=4"
        client.check_output(f"printf %s {text} >/tmp/{name}")
        try:
            _until_out_of_grace(client, f"nfs-cp /tmp/{name} '{url}'")
            assert client.check_output(f"nfs-cat '{url}'") == text
            assert host(server.name).check_output(f"cat {export.path}/{name}") == text
        finally:
            client.run(f"rm -f /tmp/{name}")
            host(server.name).run(f"rm -f {export.path}/{name}")


def _until_out_of_grace(client: Host, command: str) -> None:
    end = time.monotonic() + GRACE
    while (done := client.run(command)).rc != 0:
        assert "NFS4ERR_GRACE" in done.stderr + done.stdout, done.stderr
        assert time.monotonic() < end, f"still in grace after {GRACE:.0f} s"
        time.sleep(1)


@pytest.fixture(scope="module")
def postgresql_port(only: Callable[[str], SiteHost], everyone: tuple[SiteHost, ...], paths: SitePaths) -> Iterator[int]:
    """A port here behind which PostgreSQL answers as it does to another host: only the site's networks may ask it."""
    server = only("postgresql")
    via = next((h for h in everyone if h.name != server.name), server)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    forward = f"127.0.0.1:{port}:{server.address}:{POSTGRESQL}"
    options = [*ssh_arguments(paths), "-o", "ExitOnForwardFailure=yes", "-o", "ControlPath=none", "-N", "-L", forward]
    with subprocess.Popen(["ssh", *options, f"root@{via.address}"], stdin=subprocess.DEVNULL) as tunnel:
        try:
            _until_it_listens(tunnel, port)
            yield port
        finally:
            tunnel.terminate()


def _until_it_listens(tunnel: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + 2 * TIMEOUT
    while True:
        assert tunnel.poll() is None, f"ssh ended with status {tunnel.returncode}"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT).close()
        except ConnectionRefusedError:
            assert time.monotonic() < end, "no tunnel to PostgreSQL"
            time.sleep(0.1)
        else:
            return


def test_postgresql_answers_over_verified_tls(
    site: Site, only: Callable[[str], SiteHost], secrets: SecretStore, paths: SitePaths, postgresql_port: int
) -> None:
    """Each database answers SQL over TLS with a verified certificate to its owner, and to nobody else's password."""
    only("postgresql")
    assert secrets.ca
    name = f"postgresql.{site.domain}"

    def connect(database: str, password: str) -> psycopg.Connection:
        return psycopg.connect(
            host=name,
            hostaddr="127.0.0.1",
            port=postgresql_port,
            dbname=database,
            user=database,
            password=password,
            sslmode="verify-full",
            sslrootcert=str(paths.ca_file),
            connect_timeout=int(TIMEOUT),
        )

    for database in databases(site):
        with connect(database, secrets.get(database_secret(database))) as connection:
            row = connection.execute(
                "select current_user, ssl, version from pg_stat_ssl where pid = pg_backend_pid()"
            ).fetchone()
            connection.execute("create temporary table probe (number integer) on commit drop")
            connection.execute("insert into probe select generate_series(1, 10)")
            total = connection.execute("select sum(number) from probe").fetchone()
        assert row is not None
        assert row[:2] == (database, True)
        assert row[2] in ("TLSv1.2", "TLSv1.3")
        assert total == (55,)
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            connect(database, "not the password")


def test_postgresql_refuses_plain_connections(site: Site, secrets: SecretStore, postgresql_port: int) -> None:
    """PostgreSQL refuses a client that does not speak TLS, even with the right password."""
    database = databases(site)[0]
    with pytest.raises(psycopg.OperationalError, match="no encryption"):
        psycopg.connect(
            host="127.0.0.1",
            port=postgresql_port,
            dbname=database,
            user=database,
            password=secrets.get(database_secret(database)),
            sslmode="disable",
            connect_timeout=int(TIMEOUT),
        )


def test_kine_answers_only_to_the_sites_certificates(
    site: Site, only: Callable[[str], SiteHost], secrets: SecretStore
) -> None:
    """kine answers etcd's status call to a client with a certificate of the site, and refuses one without."""
    server = only("kine")
    client = secrets.certificate("verify", [f"verify.{site.domain}"])
    ca = secrets.ca.encode()
    known = grpc.ssl_channel_credentials(ca, client.private_key.encode(), client.certificate.encode())
    answer = _etcd_status(server.address, known)
    assert b"3." in answer  # the version that it says it is
    with pytest.raises(grpc.RpcError) as refusal:
        _etcd_status(server.address, grpc.ssl_channel_credentials(ca))
    assert refusal.value.code() == grpc.StatusCode.UNAVAILABLE


def _etcd_status(address: str, credentials: grpc.ChannelCredentials) -> bytes:
    """etcd's Maintenance/Status, unparsed."""
    with grpc.secure_channel(f"{address}:{DATASTORE}", credentials) as channel:
        call = channel.unary_unary("/etcdserverpb.Maintenance/Status", lambda b: b, lambda b: b)
        answer: bytes = call(b"", timeout=TIMEOUT)
    return answer


def test_registry_answers_over_tls(
    site: Site, only: Callable[[str], SiteHost], secrets: SecretStore, paths: SitePaths
) -> None:
    """The registry answers its API over TLS under its own name."""
    server = only("registry")
    name = f"registry.{site.domain}"
    assert secrets.ca
    context = ssl.create_default_context(cafile=str(paths.ca_file))
    with (
        socket.create_connection((server.address, REGISTRY), timeout=TIMEOUT) as plain,
        context.wrap_socket(plain, server_hostname=name) as tls,
    ):
        tls.sendall(f"GET /v2/ HTTP/1.1\r\nHost: {name}:{REGISTRY}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: tls.recv(4096), b"")).decode()
    assert answer.startswith("HTTP/1.1 200"), answer
    assert "Docker-Distribution-Api-Version: registry/2.0" in answer
