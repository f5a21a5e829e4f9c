"""The services of the hosts layer, queried over the network as clients do."""

from __future__ import annotations

import contextlib
import fnmatch
import json
import re
import secrets as randomness
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import TYPE_CHECKING

import grpc
import psycopg
import pytest

from strata.access.https import named_session
from strata.access.ssh import forwarded_port
from strata.catalogue.needs.database import KINE_DATABASE
from strata.catalogue.site_needs import databases
from strata.inventory.clients import NFS_ROLES, NODES, NODES_SECRET, OPERATOR, OPERATOR_SECRET, SERVICE_ROLES
from strata.inventory.port_numbers import DATASTORE, POSTGRESQL, REGISTRY, REGISTRY_PUSH
from strata.inventory.topology import database_secret, service_names
from strata.models.hosts import NfsExport
from strata.models.hypervisors import passthrough
from strata.models.site import Site
from strata.roles import kernel_names, units_of
from strata.roles import port as role_port
from strata.site.context import SiteContext
from strata.site.host_list import LOAD_BALANCER, address_of, hosts, hosts_with, running_roles
from strata.site.host_list import Host as SiteHost
from strata.site.outputs import CloudOutputs
from strata.site.paths import SitePaths
from strata.site.secrets import SecretStore
from strata.verify.needs import (
    CLUSTER,
    DATABASES,
    KINE,
    NFS_CLIENTS,
    PASSTHROUGH,
    REPLICATED_POSTGRESQL,
    VIRTUAL_ADDRESS,
    needs,
    role,
)
from strata.verify.waiting import settled

if TYPE_CHECKING:
    from testinfra.host import Host

NODE_EXPORTER = role_port("node_exporter")
TIMEOUT = 30.0
"""How long a service may take to answer on a loaded machine, in seconds."""
GRACE = 120.0
"""An NFS server that was restarted lets clients reclaim locks first, in seconds."""
SOME_USER = 20000
"""A user without rights, who writes to tenants' folders with their group."""
ACTIVE_UNIT = re.compile(r'^node_systemd_unit_state{name="([^"]+)\.service",state="active",[^}]*} 1$', re.MULTILINE)
"""In the node exporter's metrics."""
MOST_SKEW = 1.0
"""Difference of clocks that is still the same time, in seconds."""


@pytest.fixture(scope="module")
def everyone(site: Site, request: pytest.FixtureRequest) -> tuple[SiteHost, ...]:
    """Every host of the site."""
    outputs: CloudOutputs | None = request.getfixturevalue("context").cloud_outputs
    return hosts(site, outputs)


@pytest.fixture(scope="module")
def only(site: Site, request: pytest.FixtureRequest) -> Callable[[str], SiteHost]:
    """`only("postgresql")` → the first host that has the role."""
    outputs: CloudOutputs | None = request.getfixturevalue("context").cloud_outputs
    return lambda name: hosts_with(name, site, outputs)[0]


def test_names_of_the_site_resolve_on_every_host(
    site: Site, context: SiteContext, everyone: tuple[SiteHost, ...], host: Callable[[str], Host]
) -> None:
    """Every host resolves the names of all hosts and of the site's services."""
    expected = {f"{h.name}.{site.domain}": h.address for h in everyone}
    expected |= {entry["name"]: entry["address"] for entry in service_names(site, context.cloud_outputs)}
    for machine in everyone:
        answers = host(machine.name).check_output(f"getent ahostsv4 {' '.join(expected)} || true").splitlines()
        resolved = {line.split()[2]: line.split()[0] for line in answers if len(line.split()) == 3}
        assert resolved == expected, f"/etc/hosts of {machine.name}"


def test_units_of_roles_are_active(site: Site, everyone: tuple[SiteHost, ...], host: Callable[[str], Host]) -> None:
    """On every host, the systemd units of its roles are active."""
    for machine in everyone:
        running = running_roles(site, machine.roles)
        others = kernel_names(running)
        for unit in units_of(running):
            command = f"systemctl is-active '{unit}.service' '{others.get(unit, unit)}.service'"
            states = settled(partial(_output, host(machine.name), command), lambda output: "active" in output.split())
            assert "active" in states.split(), f"{machine.name}: {unit} is {states.strip()}"


def _output(machine: Host, command: str) -> str:
    """What a command prints, whatever its exit status."""
    return str(machine.run(command).stdout)


def test_every_host_serves_metrics(
    site: Site,
    everyone: tuple[SiteHost, ...],
    host: Callable[[str], Host],
    can_connect: Callable[[str, int], bool],
) -> None:
    """The node exporter of every host serves metrics and states of units; nothing outside of the cluster reaches it."""
    with ThreadPoolExecutor(len(everyone)) as pool:
        reached = pool.map(lambda machine: can_connect(machine.outside, NODE_EXPORTER), everyone)
    own = {machine.name for machine in site.hosts.machines}
    for machine, open_to_all in zip(everyone, reached, strict=True):
        text = host(machine.name).check_output(
            f"curl -sS --retry 6 --retry-connrefused http://localhost:{NODE_EXPORTER}/metrics"
        )
        assert "node_filesystem_avail_bytes{" in text, machine.name
        active = set(ACTIVE_UNIT.findall(text))
        running = running_roles(site, machine.roles)
        for unit in units_of(running):
            names = (unit, kernel_names(running).get(unit, unit))
            assert any(fnmatch.filter(active, name) for name in names), (
                f"{machine.name}: {unit} is not reported as active"
            )
        unfiltered = machine.name in own and not site.hosts.firewall
        assert not open_to_all or unfiltered, f"{machine.name}: the deployment host reaches the port"


def test_hosts_have_the_same_time(everyone: tuple[SiteHost, ...], host: Callable[[str], Host]) -> None:
    """The clocks of all hosts agree with the deployment host's."""
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
    """Every host trusts the site's CA."""
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


@needs(role("nfs_server"), NFS_CLIENTS)
def test_nfs_client_writes_and_reads(
    site: Site, only: Callable[[str], SiteHost], everyone: tuple[SiteHost, ...], host: Callable[[str], Host]
) -> None:
    """An NFS client writes a file and reads it back; the server stores it on disk, not owned by root."""
    server = only("nfs_server")
    allowed = [h for h in everyone if set(NFS_ROLES) & set(h.roles)]
    assert site.hosts.nfs is not None
    client = host(next((h for h in allowed if h.name != server.name), server).name)
    for export in site.hosts.nfs.exports:
        if export.read_only:
            client.check_output(f"nfs-ls 'nfs://{server.address}/{export.name}?version=4'")
            continue
        for folder, identity in _folders(site, export):
            name, text = f".strata-verify-{randomness.token_hex(4)}", randomness.token_hex(16)
            url = f"nfs://{server.address}/{export.name}{folder}/{name}?version=4{identity}"
            client.check_output(f"printf %s {text} >/tmp/{name}")
            try:
                _until_out_of_grace(client, f"nfs-cp /tmp/{name} '{url}'")
                assert client.check_output(f"nfs-cat '{url}'") == text
                stored = f"{export.path}{folder}/{name}"
                assert host(server.name).check_output(f"cat {stored}") == text
                owner = host(server.name).check_output(f"stat --format=%u {stored}")
                assert (owner == "0") == export.root, f"{stored} belongs to user {owner}"
            finally:
                client.run(f"rm -f /tmp/{name}")
                host(server.name).run(f"rm -f {export.path}{folder}/{name}")


def _folders(site: Site, export: NfsExport) -> list[tuple[str, str]]:
    """Where clients may write in an export, and as whom."""
    if not export.tenants:
        return [("", "")]
    return [(f"/{t.name}", f"&uid={SOME_USER}&gid={t.group_id}") for t in site.platform.tenants]


def _until_out_of_grace(client: Host, command: str) -> None:
    end = time.monotonic() + GRACE
    while (done := client.run(command)).rc != 0:
        assert "NFS4ERR_GRACE" in done.stderr + done.stdout, done.stderr
        assert time.monotonic() < end, f"still in grace after {GRACE:.0f} s"
        time.sleep(1)


@pytest.fixture(scope="module")
def database_port(
    only: Callable[[str], SiteHost], everyone: tuple[SiteHost, ...], context: SiteContext
) -> Iterator[Callable[[str], int]]:
    """`database_port(NAME)` → a port here behind which PostgreSQL answers as it does to the database's clients."""
    server = only("postgresql")
    address = address_of("postgresql", context.site, context.cloud_outputs) or server.address
    with contextlib.ExitStack() as tunnels:

        @cache
        def by(role: str) -> int:
            via = next((h for h in everyone if role in h.roles), server)
            return tunnels.enter_context(forwarded_port(context, via.address, address, POSTGRESQL))

        yield lambda database: by("kine" if database == KINE_DATABASE else SERVICE_ROLES[0])


@needs(role("postgresql"), DATABASES)
def test_postgresql_answers_over_verified_tls(
    site: Site,
    only: Callable[[str], SiteHost],
    secrets: SecretStore,
    paths: SitePaths,
    database_port: Callable[[str], int],
) -> None:
    """Each database accepts its owner over TLS with a verified certificate, and rejects a wrong password."""
    only("postgresql")
    assert secrets.ca
    name = f"postgresql.{site.domain}"

    def connect(database: str, password: str) -> psycopg.Connection:
        return psycopg.connect(
            host=name,
            hostaddr="127.0.0.1",
            port=database_port(database),
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


@needs(REPLICATED_POSTGRESQL)
def test_patroni_replicates_synchronously(
    site: Site, only: Callable[[str], SiteHost], host: Callable[[str], Host], context: SiteContext
) -> None:
    """One of several PostgreSQL servers is the primary, one has every acknowledged write, all are up"""
    command = "patronictl --config-file /etc/patroni/config.yml list --format json"
    members = json.loads(host(only("postgresql").name).check_output(command))
    assert {member["Member"] for member in members} == {
        h.name for h in hosts_with("postgresql", site, context.cloud_outputs)
    }
    assert all(member["State"] in ("running", "streaming") for member in members), members
    roles = [member["Role"] for member in members]
    assert (roles.count("Leader"), roles.count("Sync Standby")) == (1, 1), members


@needs(VIRTUAL_ADDRESS)
def test_one_load_balancer_has_the_virtual_address(
    site: Site, everyone: tuple[SiteHost, ...], host: Callable[[str], Host]
) -> None:
    """The virtual address is on exactly one load balancer, and keepalived runs on all of them"""
    assert site.hosts.load_balancer is not None
    address = site.hosts.load_balancer.virtual_address
    balancers = [host(h.name) for h in everyone if LOAD_BALANCER in h.roles]
    assert all(balancer.service("keepalived").is_running for balancer in balancers)
    lines = {b.check_output("hostname"): b.check_output(f"ip -oneline address show to {address}") for b in balancers}
    assert [name for name, line in lines.items() if line] != [], f"{address} is on no load balancer"
    assert len([line for line in lines.values() if line]) == 1, f"{address} is on several load balancers: {lines}"


@needs(role("postgresql"), DATABASES)
def test_postgresql_refuses_plain_connections(
    site: Site, secrets: SecretStore, database_port: Callable[[str], int]
) -> None:
    """PostgreSQL rejects a client without TLS, even with the right password."""
    database = databases(site)[0]
    with pytest.raises(psycopg.OperationalError, match="no encryption"):
        psycopg.connect(
            host="127.0.0.1",
            port=database_port(database),
            dbname=database,
            user=database,
            password=secrets.get(database_secret(database)),
            sslmode="disable",
            connect_timeout=int(TIMEOUT),
        )


@needs(PASSTHROUGH)
def test_hypervisors_hand_out_their_accelerators(site: Site, host: Callable[[str], Host]) -> None:
    """On every hypervisor, all of its accelerators are bound to vfio-pci, each in an IOMMU group."""
    hypervisors = passthrough(site)
    script = (
        "cd /sys/bus/pci/devices; for d in *; do "
        "echo $(cat $d/vendor $d/device) $(readlink -e $d/driver || echo /none) "
        "$(readlink -e $d/iommu_group || echo /none); done"
    )
    for name, accelerators in hypervisors.items():
        lines = [line.split() for line in host(name).check_output(script).splitlines()]
        bound = Counter(
            f"{vendor[2:]}:{device[2:]}"
            for vendor, device, driver, group in lines
            if driver.endswith("/vfio-pci") and not group.endswith("/none")
        )
        for kind, count in accelerators.items():
            assert bound[site.accelerators[kind].pci_id] >= count, f"{name}: {kind}, of {dict(bound)}"


@needs(role("kine"), CLUSTER, KINE)
def test_kine_answers_only_to_the_sites_certificates(
    site: Site, only: Callable[[str], SiteHost], secrets: SecretStore, context: SiteContext
) -> None:
    """kine accepts clients with a certificate of the site's CA, and rejects those without."""
    server, control = only("kine"), only("kube_control_plane")
    client = secrets.certificate("verify", [f"verify.{site.domain}"])
    ca = secrets.ca.encode()
    known = grpc.ssl_channel_credentials(ca, client.private_key.encode(), client.certificate.encode())
    with forwarded_port(context, control.address, server.address, DATASTORE) as port:
        answer = _etcd_status(site, port, known)
        assert b"3." in answer  # the version that it reports
        with pytest.raises(grpc.RpcError) as refusal:
            _etcd_status(site, port, grpc.ssl_channel_credentials(ca))
    assert refusal.value.code() == grpc.StatusCode.UNAVAILABLE


def _etcd_status(site: Site, port: int, credentials: grpc.ChannelCredentials) -> bytes:
    """etcd's Maintenance/Status, unparsed."""
    name = (("grpc.ssl_target_name_override", f"kine.{site.domain}"),)
    with grpc.secure_channel(f"127.0.0.1:{port}", credentials, options=name) as channel:
        call = channel.unary_unary("/etcdserverpb.Maintenance/Status", lambda b: b, lambda b: b)
        answer: bytes = call(b"", timeout=TIMEOUT)
    return answer


@needs(role("registry"))
def test_registry_asks_for_a_password(site: Site, only: Callable[[str], SiteHost], secrets: SecretStore) -> None:
    """The registry serves pulls to nodes and pushes to the operator, each at its own port, and rejects others."""
    server = only("registry")
    assert secrets.ca
    nodes, operator = (NODES, secrets.get(NODES_SECRET)), (OPERATOR, secrets.get(OPERATOR_SECRET))
    for port, known, other in ((REGISTRY, nodes, operator), (REGISTRY_PUSH, operator, nodes)):
        with named_session(SitePaths(site.name).ca_file, f"registry.{site.domain}") as session:
            for auth, status in ((known, 200), (other, 401), ((known[0], "wrong"), 401), (None, 401)):
                answer = session.get(f"https://{server.outside}:{port}/v2/_catalog", auth=auth, timeout=TIMEOUT)
                assert answer.status_code == status, f"port {port}, user {auth and auth[0]}: {answer.text}"
