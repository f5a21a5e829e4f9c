"""What the roles promise, asked from the other container."""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
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
DOMAIN: str = COMMON["strata_domain"]


@pytest.fixture(params=sorted(ADDRESSES))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(name: str) -> Host:
    return testinfra.get_host(f"podman://strata-molecule-{name}")


@pytest.fixture
def client(name: str) -> Host:
    other = next(n for n in ADDRESSES if n != name)
    return testinfra.get_host(f"podman://strata-molecule-{other}")


@pytest.fixture
def address(name: str) -> str:
    return ADDRESSES[name]


def curl(client: Host, address: str, url: str, *options: str) -> str:
    """Response of a URL whose name is taken to be at the address."""
    host, _, port = url.split("/")[2].partition(":")
    port = port or ("443" if url.startswith("https") else "80")
    command = [
        "curl",
        "--silent",
        "--show-error",
        "--include",
        "--max-time",
        "5",
        "--resolve",
        f"{host}:{port}:{address}",
    ]
    return str(client.check_output(" ".join([*command, *options, url])))


def test_hosts_are_known_by_name(server: Host) -> None:
    for name, address in ADDRESSES.items():
        assert server.check_output(f"getent hosts {name}.{DOMAIN}").split()[0] == address


def test_administrator_logs_in_by_key_and_becomes_root(server: Host) -> None:
    assert server.file("/home/ada/.ssh/authorized_keys").content_string.strip() == COMMON["base_users"][0]["keys"][0]
    assert server.check_output("su -c 'sudo --non-interactive id -u' ada") == "0"


def test_only_the_promised_ports_are_open(server: Host) -> None:
    lines = server.check_output("ss -Htln").splitlines()
    ports = {
        int(line.split()[3].rpartition(":")[2]) for line in lines if "127.0.0.1:" not in line and "[::1]:" not in line
    }
    assert ports - {22} <= {80, 443, 2049, 2379, 5000, 5001, 5432, 9100}
    assert ports >= {80, 443, 2049, 5000, 5001, 5432, 9100}


def test_nfs_client_writes_and_reads(client: Host, address: str) -> None:
    url = f"'nfs://{address}/data/greeting?version=4'"
    client.check_output(f'sh -c "echo from $(hostname) >/tmp/greeting; nfs-cp /tmp/greeting {url}"')
    assert client.check_output(f"nfs-cat {url}").startswith("from ")


def test_nfs_refuses_writing_and_strangers(client: Host, address: str) -> None:
    client.check_output("sh -c 'echo x >/tmp/x'")
    assert client.run(f"nfs-cp /tmp/x 'nfs://{address}/readonly/x?version=4'").rc != 0
    assert client.run(f"nfs-ls 'nfs://{address}/readonly?version=4'").rc == 0
    assert client.run(f"nfs-ls 'nfs://{address}/elsewhere?version=4'").rc != 0


@pytest.mark.parametrize("database", [d["name"] for d in COMMON["postgresql_databases"]])
def test_postgresql_takes_its_owner_over_verified_tls(client: Host, address: str, database: str) -> None:
    password = next(d["password"] for d in COMMON["postgresql_databases"] if d["name"] == database)
    connection = f"host=postgresql.{DOMAIN} hostaddr={address} dbname={database} user={database}"
    assert (
        psql(
            client,
            f"{connection} sslmode=verify-full",
            password,
            "select ssl from pg_stat_ssl where pid = pg_backend_pid()",
        )
        == "t"
    )
    with pytest.raises(AssertionError, match="no encryption"):
        psql(client, f"{connection} sslmode=disable", password, "select 1")
    with pytest.raises(AssertionError, match="password authentication failed"):
        psql(client, f"{connection} sslmode=verify-full", "wrong", "select 1")
    with pytest.raises(AssertionError, match="no pg_hba"):
        psql(
            client,
            f"{connection} sslmode=verify-full".replace(f"dbname={database}", "dbname=postgres"),
            password,
            "select 1",
        )


def psql(client: Host, connection: str, password: str, sql: str) -> str:
    """What a query answers."""
    trusted = f"{connection} sslrootcert=/etc/ssl/certs/ca-certificates.crt"
    command = ["podman", "exec", "--env", "PGPASSWORD", client.backend.name, "psql", trusted, "-Atc", sql]
    done = subprocess.run(
        command, env=os.environ | {"PGPASSWORD": password}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_kine_asks_for_a_client_certificate(server: Host, address: str) -> None:
    if not COMMON["kine_binary"]:
        pytest.skip("the toolchain has not built kine on this machine: `strata doctor`")
    assert server.service("kine").is_running
    trusting = ssl.create_default_context(cadata=COMMON["base_ca"])
    trusting.set_alpn_protocols(["h2"])
    assert not answers(trusting, address)
    trusting.load_cert_chain(VARIABLES / "client.pem")
    assert answers(trusting, address)
    # the database's password is stored in a private file, not among the arguments
    assert "postgres" not in server.check_output("cat /proc/$(pidof kine)/cmdline")
    assert server.file("/etc/kine/kine.env").mode == 0o600


def answers(context: ssl.SSLContext, address: str) -> bool:
    """Whether an HTTP/2 server answers to this certificate (TLS 1.3 refuses after the handshake)."""
    try:
        with (
            socket.create_connection((address, 2379), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname=f"kine.{DOMAIN}") as tls,
        ):
            tls.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            return len(tls.recv(9)) == 9
    except (ssl.SSLError, ConnectionError):
        return False


@pytest.mark.parametrize(
    ("port", "user", "reads", "writes"),
    [
        (5000, "nodes:pull", "200", "405"),
        (5000, "operator:push", "401", "401"),
        (5001, "operator:push", "200", "202"),
        (5001, "nodes:pull", "401", "401"),
        (5000, "nodes:wrong", "401", "401"),
        (5001, "", "401", "401"),
    ],
)
def test_registry_serves_nodes_and_takes_from_the_operator(
    client: Host, address: str, port: int, user: str, reads: str, writes: str
) -> None:
    url, login = f"https://registry.{DOMAIN}:{port}/v2/", ("--user", user) if user else ()
    assert reads in curl(client, address, url, *login).splitlines()[0]
    started = curl(client, address, f"{url}probe/blobs/uploads/", "--request", "POST", *login)
    assert writes in started.splitlines()[0], started


def test_nfs_root_is_the_account_nobody_and_folders_are_their_groups(server: Host, client: Host, address: str) -> None:
    client.check_output("sh -c 'echo x >/tmp/x'")
    client.check_output(f"nfs-cp /tmp/x 'nfs://{address}/data/mine?version=4'")
    assert server.file("/srv/nfs/data/mine").uid != 0
    folder = server.file("/srv/nfs/data/research")
    assert (folder.uid, folder.gid, folder.mode) == (0, 20001, 0o2770)
    assert client.run(f"nfs-cp /tmp/x 'nfs://{address}/data/research/x?version=4'").rc != 0
    assert client.run(f"nfs-cp /tmp/x 'nfs://{address}/data/research/x?version=4&uid=20000&gid=20001'").rc == 0


def test_nfs_root_is_the_owner_of_a_volume(server: Host, client: Host, address: str) -> None:
    client.check_output("sh -c 'echo x >/tmp/x'")
    client.check_output(f"nfs-cp /tmp/x 'nfs://{address}/homes/mine?version=4'")
    file, folder = server.file("/srv/nfs/volumes/homes/mine"), server.file("/srv/nfs/volumes/homes")
    assert (file.uid, file.gid) == (1000, 100)
    assert (folder.uid, folder.gid, folder.mode) == (1000, 100, 0o770)
    assert client.run(f"nfs-cp /tmp/x 'nfs://{address}/homes/other?version=4&uid=1001&gid=1001'").rc != 0
    size = server.check_output("stat --format=%s /var/lib/nfs-server/homes.ext4")
    assert int(size) == 32 << 20


@pytest.mark.parametrize("directory", ["/srv/nfs", "/srv/nfs/volumes"])
def test_no_one_else_writes_above_the_exports(server: Host, directory: str) -> None:
    above = server.file(directory)
    assert (above.user, above.mode) == ("root", 0o755)


PROXY_HEADER = "0d0a0d0a000d0a515549540a"
"""First bytes of the PROXY protocol, version 2, in hexadecimal."""
BACKEND = (
    "import socket; s = socket.create_server(('', 30443))\n"
    "while True:\n"
    "    c, _ = s.accept(); b = c.recv(12)\n"
    "    if b: open('/run/received', 'w').write(b.hex())\n"
    "    c.close()\n"
)


def test_load_balancer_forwards_tls_with_the_client_s_address(server: Host, client: Host, address: str) -> None:
    assert f"location: https://hello.{DOMAIN}/x" in curl(client, address, f"http://hello.{DOMAIN}/x")
    server.run_expect([0], "systemd-run --quiet --collect --unit probe python3 -c %s", BACKEND)
    try:
        ask = f"curl -s --max-time 2 --resolve hello.{DOMAIN}:443:{address} https://hello.{DOMAIN}/"
        client.run(f"timeout 15 sh -c 'for i in 1 2 3 4 5 6 7 8; do {ask}; sleep 1; done'")
        # the health check of the load balancer begins with the same header as a client's connection
        assert server.file("/run/received").content_string == PROXY_HEADER
    finally:
        server.check_output("systemctl stop probe")


def test_private_keys_are_private(server: Host) -> None:
    files = server.check_output("grep -rl 'PRIVATE KEY' /etc/kine /etc/haproxy /etc/postgresql /etc/docker").split()
    assert len(files) >= 3
    for file in files:
        assert server.file(file).mode & 0o007 == 0, file


def test_node_exporter_serves_metrics_of_the_host(client: Host, address: str) -> None:
    text = curl(client, address, f"http://exporter.{DOMAIN}:9100/metrics")
    assert "node_filesystem_avail_bytes{" in text
    assert re.search(r'^node_filesystem_avail_bytes{.*mountpoint="/srv/nfs/volumes/homes".*}', text, re.MULTILINE)
    assert "node_memory_MemAvailable_bytes" in text
    assert re.search(r'^node_systemd_unit_state{name="haproxy.service",state="active",.*} 1$', text, re.MULTILINE)
    assert "node_hwmon" not in text, "a collector that was not chosen"


def test_firewall_refuses_addresses_that_are_not_listed(server: Host, client: Host, address: str) -> None:
    stranger = "198.18.12.200"
    client.check_output(f"ip address add {stranger}/24 dev eth0")
    try:
        for source, status in ((stranger, 28), ("", 0)):
            options = f"--interface {source}" if source else ""
            result = client.run(f"curl --silent --output /dev/null --max-time 5 {options} http://{address}:80/")
            assert result.rc == status, source
    finally:
        client.check_output(f"ip address del {stranger}/24 dev eth0")
    # of a new login's timer nothing is left
    assert "strata-firewall-undo" not in server.check_output("systemctl list-timers --all")
