"""What runs services without a site, in benchmarks and tests: their environments, and a throw-away PostgreSQL."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pwd
import random
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from strata.site.paths import REPOSITORY
from strata.site.secrets import pki

PORTS = range(20_000, 32_768)
"""Below those that Linux gives to connections: a server that takes seconds to listen finds its port still free."""
_claims: dict[int, socket.socket] = {}
"""Abstract sockets with the ports given to this process: no other process is given one of them until it ends."""


def free_port() -> int:
    """A free TCP port of loopback; each only once, also among the workers of a test run."""
    return free_ports(1)


def free_ports(count: int) -> int:
    """The first of as many free TCP ports of loopback in a row, of which none is given twice.

    Args:
        count: how many.
    """
    while True:
        first = random.choice(PORTS)  # noqa: S311  # which one does not matter
        if all(map(_claimed, range(first, first + count))):
            return first


def _claimed(port: int) -> bool:
    """Whether a port was free and is this process's now; nobody listens on it before its server has started."""
    if port in _claims:
        return False
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0strata-port-{port}")
        with socket.create_server(("127.0.0.1", port)):
            _claims[port] = claim
            return True
    except OSError:
        claim.close()
        return False


@functools.cache
def service_python(service: str) -> Path:
    """Interpreter of a service's own locked environment, made where there is none."""
    return locked_programs(REPOSITORY / "services" / service, "--no-dev", "--inexact") / "python"


def locked_programs(project: Path, *options: str) -> Path:
    """Directory of the programs of a project's own environment, as its uv.lock has it, made where there is none.

    Args:
        project: directory with pyproject.toml and uv.lock.
        options: of `uv sync`.
    """
    subprocess.run(
        ["uv", "sync", "--quiet", "--frozen", *options, "--project", str(project)],
        check=True,
        env={k: v for k, v in os.environ.items() if k != "VIRTUAL_ENV"},
    )
    return project / ".venv/bin"


_FORKING = """
import gc, importlib, json, os, signal, sys, tempfile, traceback
import psycopg  # SQLAlchemy would import it in each fork
main = importlib.import_module(sys.argv[1] + ".__main__").main
gc.freeze()
for line in sys.stdin:
    running = []
    for environment, arguments in json.loads(line):
        outputs = [tempfile.TemporaryFile("w+") for _ in range(2)]
        if child := os.fork():
            running.append((child, outputs))
            continue
        signal.alarm(60)
        os.environ.clear()
        os.environ.update(environment)
        for descriptor, output in enumerate(outputs, 1):
            os.dup2(output.fileno(), descriptor)
        sys.argv[1:] = arguments
        status = 1
        try:
            status = main() or 0
        except SystemExit as end:
            status = end.code or 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(status)  # to tidy up would copy all of the forked memory
    done = []
    for child, outputs in running:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        for output in outputs:
            output.seek(0)
        done.append((status, *(output.read() for output in outputs)))
    print(json.dumps(done), flush=True)
"""


class ServiceCommands:
    """Runs a service's commands in forks of one process that has imported it: most take less time than the import.

    Args:
        service: whose package has the `main` of `python -m`.
    """

    def __init__(self, service: str) -> None:
        command = [str(service_python(service)), "-c", _FORKING, service.replace("-", "_")]
        # ends with this process, which closes its standard input
        self._process = subprocess.Popen(command, env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs one to its end."""
        return self.at_once([(environment, arguments)])[0]

    def at_once(
        self, commands: Sequence[tuple[Mapping[str, str], Sequence[str]]]
    ) -> list[subprocess.CompletedProcess[str]]:
        """Runs several in parallel: environments and arguments."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(
            json.dumps([(dict(environment), arguments) for environment, arguments in commands]) + "\n"
        )
        self._process.stdin.flush()
        done = json.loads(self._process.stdout.readline())
        return [
            subprocess.CompletedProcess(arguments, *result)
            for (_, arguments), result in zip(commands, done, strict=True)
        ]


@functools.cache
def service_commands(service: str) -> ServiceCommands:
    """One for all tests of the session."""
    return ServiceCommands(service)


@dataclass
class PostgreSQL:
    """A throw-away cluster with TLS on loopback; `postgres` owns its files where the tests run as root.

    Args:
        binaries: directory of initdb and pg_ctl.
        directory: of its files.
        certificate: of the server.
        plain_address: of this machine, at which it listens too, without TLS; empty: loopback alone.
        port: at all addresses.
    """

    binaries: Path
    directory: Path
    certificate: pki.Certificate
    plain_address: str = ""
    port: int = field(default_factory=free_port)

    def _run(self, *arguments: str) -> None:
        as_root = os.geteuid() == 0
        done = subprocess.run(
            [str(self.binaries / arguments[0]), *arguments[1:]],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.directory,
            user="postgres" if as_root else None,
            group="postgres" if as_root else None,
            extra_groups=[] if as_root else None,
        )
        if done.returncode != 0:
            raise AssertionError(f"{arguments[0]}: {done.stdout}{done.stderr}")

    def start(self) -> None:
        """Makes the cluster with an administrator `admin` and starts it."""
        for name, text in (
            ("server.crt", self.certificate.certificate),
            ("server.key", self.certificate.private_key),
            ("ca.pem", self.certificate.ca),
        ):
            file = self.directory / name
            file.write_text(text)
            file.chmod(0o600 if name == "server.key" else 0o644)
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            for path in (self.directory, *self.directory.iterdir()):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        data = str(self.directory / "data")
        self._run("initdb", "-D", data, "-U", "admin", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8")
        hba = Path(data) / "pg_hba.conf"
        plain = f"hostnossl all all {self.plain_address}/32 scram-sha-256\n" if self.plain_address else ""
        hba.write_text(f"local all admin trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n{plain}")
        addresses = f"127.0.0.1,{self.plain_address}" if self.plain_address else "127.0.0.1"
        options = (
            f"-p {self.port} -c listen_addresses={addresses} -c unix_socket_directories={self.directory} "
            f"-c fsync=off -c ssl=on -c ssl_cert_file={self.directory}/server.crt "
            f"-c ssl_key_file={self.directory}/server.key"
        )
        self._run("pg_ctl", "-D", data, "-w", "-s", "-l", str(self.directory / "log"), "-o", options, "start")

    def stop(self) -> None:
        """Ends it at once."""
        self._run("pg_ctl", "-D", str(self.directory / "data"), "-w", "-s", "-m", "immediate", "stop")

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Runs SQL as the administrator over the socket."""
        done = subprocess.run(
            [
                str(self.binaries / "psql"), "-h", str(self.directory), "-p", str(self.port), "-U", "admin",
                "-d", database, "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statement,
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def create_database(self, name: str, prefix: str) -> dict[str, str]:
        """A new database with an owner; returns the environment of a service whose variables have that prefix."""
        self.sql(f"CREATE ROLE {name} LOGIN PASSWORD '{name}-password'")
        self.sql(f"CREATE DATABASE {name} OWNER {name}")
        return {
            f"{prefix}_DATABASE_HOST": "localhost",
            f"{prefix}_DATABASE_PORT": str(self.port),
            f"{prefix}_DATABASE_NAME": name,
            f"{prefix}_DATABASE_USER": name,
            f"{prefix}_DATABASE_PASSWORD": f"{name}-password",
            f"{prefix}_DATABASE_CA_FILE": str(self.directory / "ca.pem"),
        }


def find_postgresql() -> Path | None:
    """Directory with initdb and pg_ctl of the newest PostgreSQL here."""
    debian = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(re.sub(r"\D", "", p.parts[-3]) or 0)
    )
    if debian:
        return debian[-1].parent
    program = shutil.which("initdb")
    return Path(program).parent if program else None


@contextlib.contextmanager
def postgresql_cluster(binaries: Path, plain_address: str = "") -> Iterator[PostgreSQL]:
    """A running cluster, gone afterwards."""
    authority, key = pki.create_authority("contract-tests")
    certificate = pki.issue(authority, key, "postgresql", ["localhost"], ["127.0.0.1"])
    directory = Path(tempfile.mkdtemp(prefix="strata-postgresql-"))
    directory.chmod(0o755)
    cluster = PostgreSQL(binaries, directory, certificate, plain_address)
    try:
        cluster.start()
        yield cluster
        cluster.stop()
    finally:
        shutil.rmtree(directory)
