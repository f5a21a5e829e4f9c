"""The lab's mount.nfs against nfs-ganesha: two clients, each a booted node image, and a server that is killed."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from strata.access.podman import podman
from strata.progress import Silent
from strata.retry import wait_until
from strata_bench.node_container import BOOTED
from strata_lab.controller import BOOT
from strata_lab.images import ensure_node_image

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("podman") is None or not Path("/dev/fuse").exists(),
        reason="needs podman, root and /dev/fuse",
    ),
]
GRACE = 3
"""Seconds after a start in which the server only accepts reclaims."""
CONFIGURATION = f"""
NFS_CORE_PARAM {{ Protocols = 4; Enable_NLM = false; Enable_RQUOTA = false; }}
NFSV4 {{ Grace_Period = {GRACE}; Only_Numeric_Owners = true; RecoveryBackend = fs; }}
NFS_KRB5 {{ Active_krb5 = false; }}
EXPORT {{
    Export_Id = 1; Path = /export; Pseudo = /data; Protocols = 4; Transports = TCP; SecType = sys;
    Access_Type = RW; Squash = No_Root_Squash; FSAL {{ Name = VFS; }}
}}
"""
DIRECTORY = "/mnt"


@dataclass(frozen=True)
class Container:
    """A container of the node image."""

    name: str

    def run(self, script: str, check: bool = True) -> str:
        """Output of a shell script.

        Raises:
            subprocess.CalledProcessError: it failed.
            subprocess.TimeoutExpired: it did not end within three minutes.
        """
        done = subprocess.run(
            ["podman", "exec", "--interactive", self.name, "bash", "-c", script],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{self.name}: {script}: {done.stdout}{done.stderr}")
        return done.stdout.strip() if check else done.stdout + done.stderr

    def python(self, program: str) -> str:
        """Output of a Python program that runs in the mounted directory."""
        return self.run(f"cd {DIRECTORY} && python3 -c {shlex.quote(program)}")

    def spawn(self, program: str) -> subprocess.Popen[str]:
        """A Python program that goes on; its standard streams are pipes."""
        command = ["podman", "exec", "--interactive", "--workdir", DIRECTORY, self.name, "python3", "-u", "-c", program]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@dataclass(frozen=True)
class Server(Container):
    """The container that runs nfs-ganesha."""

    address: str

    def start(self) -> None:
        """Starts the daemon."""
        podman("exec", "--detach", self.name, "ganesha.nfsd", "-F", "-L", "/var/log/ganesha.log", "-f", "/ganesha.conf")

    def kill(self) -> None:
        """Kills the daemon without a chance to write anything."""
        self.run("pkill -KILL ganesha.nfsd; while pgrep ganesha.nfsd; do sleep 0.1; done")


@pytest.fixture(scope="module")
def containers() -> Iterator[tuple[Server, Container, Container]]:
    """A server, and two clients that have its export mounted."""
    image, suffix = ensure_node_image("12", Silent()), secrets.token_hex(3)
    names = [f"nfs-client-{suffix}-{name}" for name in ("server", "one", "two")]
    try:
        for name in names:
            podman("run", "--detach", "--name", name, *BOOT, "--volume", "/export", image)
        address = podman("inspect", "--format", "{{.NetworkSettings.IPAddress}}", names[0]).strip()
        server = Server(names[0], address)
        server.run(f"echo {shlex.quote(CONFIGURATION)} >/ganesha.conf; mkdir -p /run/ganesha")
        server.start()
        clients = Container(names[1]), Container(names[2])
        for client in clients:
            client.run(BOOTED)
            mount(client, server)
        yield server, *clients
    finally:
        for name in names:
            podman("rm", "--force", "--volumes", "--time", "0", "--ignore", name)


def mount(client: Container, server: Server) -> None:
    """As the kubelet mounts a volume."""
    client.run(f"mount -t nfs -o nfsvers=4.1,hard,noatime,nosuid,nodev {server.address}:/data {DIRECTORY}")


def test_the_expected_semantics(containers: tuple[Server, Container, Container]) -> None:
    _, client, _ = containers
    program = (Path(__file__).parent / "semantics.py").read_text()
    client.python("import os; os.mkdir('semantics'); os.chdir('semantics')\n" + program)


def test_a_file_is_the_same_on_the_other_node(containers: tuple[Server, Container, Container]) -> None:
    server, one, two = containers
    written = one.run(f"head -c 40M /dev/urandom >/tmp/40M; cp /tmp/40M {DIRECTORY}; sha256sum </tmp/40M")
    assert two.run(f"sha256sum <{DIRECTORY}/40M") == written
    assert server.run("sha256sum </export/40M") == written
    # replies this long are not stored by the server; a client that requests it can read pages only
    assert two.run(f"dd if={DIRECTORY}/40M bs=1M iflag=direct status=none | sha256sum") == written


def test_size_and_content_are_current_right_after_open(containers: tuple[Server, Container, Container]) -> None:
    _, one, two = containers
    reader = two.spawn(
        "import os, sys\n"
        "for line in sys.stdin:\n"
        "    file = os.open('growing', os.O_RDONLY)\n"
        "    print(os.fstat(file).st_size, len(os.read(file, 1 << 20)))\n"
        "    os.close(file)\n"
    )
    writer = one.spawn(
        "import sys\nfor line in sys.stdin:\n    open('growing', 'a').write('x' * 1000)\n    print('written')\n"
    )
    assert reader.stdin is not None
    assert reader.stdout is not None
    assert writer.stdin is not None
    assert writer.stdout is not None
    for size in range(1000, 21000, 1000):
        print(file=writer.stdin, flush=True)
        assert writer.stdout.readline() == "written\n"
        print(file=reader.stdin, flush=True)
        assert reader.stdout.readline() == f"{size} {size}\n"
    for process in reader, writer:
        assert process.stdin
        process.stdin.close()
        assert process.wait(60) == 0


def test_an_append_goes_to_the_end_that_another_node_has_set(containers: tuple[Server, Container, Container]) -> None:
    """One node has the file open all the time; the other extends it and makes it shorter."""
    server, one, two = containers
    one.run(f"mkdir /noac && mount -t nfs -o nfsvers=4.1,noac {server.address}:/data /noac")
    writer = one.spawn(
        "import os, sys\n"
        "file = os.open('/noac/log', os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)\n"
        "for line in sys.stdin:\n"
        "    os.stat('/noac/log')\n"
        "    os.write(file, line.encode())\n"
        "    os.fsync(file)\n"
        "    print('written')\n"
    )
    assert writer.stdin is not None
    assert writer.stdout is not None
    for command, line, content in (
        (":", "one", "one "),
        ("echo two >>log", "three", "one two three "),
        (": >log", "four", "four "),
        ("truncate -s 2 log", "five", "fofive "),
    ):
        two.run(f"cd {DIRECTORY} && {command}")
        print(line, file=writer.stdin, flush=True)
        assert writer.stdout.readline() == "written\n"
        assert server.run("tr '\\n' ' ' </export/log") == content.strip()
    writer.stdin.close()
    assert writer.wait(60) == 0
    one.run("umount /noac")


HOLDER = (
    "import fcntl, sys\n"
    "file = open('lock', 'w'); fcntl.{kind}(file, fcntl.LOCK_EX); print('locked')\n"
    "sys.stdin.readline()\n"
)


def lockable(client: Container, kind: str) -> bool:
    """Whether a node gets the lock at once."""
    program = f"import fcntl; fcntl.{kind}(open('lock', 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB); print('yes')"
    return "yes" in client.run(f"cd {DIRECTORY} && python3 -c {shlex.quote(program)}", check=False)


@pytest.mark.parametrize("kind", ["lockf", "flock"])
def test_locks_hold_between_nodes_and_over_a_restart_of_the_server(
    containers: tuple[Server, Container, Container], kind: str
) -> None:
    server, one, two = containers
    holder = one.spawn(HOLDER.format(kind=kind))
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"
    assert not lockable(two, kind)
    server.kill()
    server.start()
    assert not lockable(two, kind), "the lock was not reclaimed"
    holder.stdin.close()
    assert holder.wait(120) == 0
    assert wait_until(lambda: None if lockable(two, kind) else "the lock", 120) is None


def test_writes_continue_over_a_killed_server(containers: tuple[Server, Container, Container]) -> None:
    server, one, two = containers
    writer = one.spawn(
        "import hashlib, os, time\n"
        "digest = hashlib.sha256(); file = os.open('long', os.O_CREAT | os.O_WRONLY)\n"
        "for part in range(200):\n"
        "    data = os.urandom(1 << 18); digest.update(data); os.write(file, data); time.sleep(0.02)\n"
        "    if part == 20: print('begun')\n"
        "os.fsync(file); os.close(file); print(digest.hexdigest())\n"
    )
    assert writer.stdout
    assert writer.stdout.readline() == "begun\n"
    server.kill()
    time.sleep(1)
    server.start()
    written = writer.stdout.readline().strip()
    assert writer.wait(180) == 0
    assert two.run(f"sha256sum <{DIRECTORY}/long").split()[0] == written


def test_a_pod_can_end_while_the_server_is_down(containers: tuple[Server, Container, Container]) -> None:
    """Waiting processes can be killed, and the directory unmounted; neither waits for the server."""
    server, _, two = containers
    two.run(f"echo x >{DIRECTORY}/before")
    server.kill()
    try:
        writer = two.spawn("import os; print('begun'); open('during', 'w').write('x' * (1 << 20))")
        reader = two.spawn("import os; print('begun'); os.listdir('.'); open('before').read()")
        for process in writer, reader:
            assert process.stdout
            assert process.stdout.readline() == "begun\n"
        time.sleep(1)
        assert writer.poll() is None, "a hard mount does not fail"
        two.run("pkill -KILL -f 'print..begun'", check=False)
        for process in writer, reader:
            assert process.wait(60) != 0
        two.run(f"timeout 60 umount {DIRECTORY}")
        two.run(f"! mountpoint --quiet {DIRECTORY}")
    finally:
        server.start()
    mount(two, server)
    assert two.run(f"cat {DIRECTORY}/before") == "x"


def test_a_mount_outlives_the_unit_that_made_it(containers: tuple[Server, Container, Container]) -> None:
    """The kubelet's unit may be restarted."""
    server, client, _ = containers
    script = f"mkdir -p /other && mount -t nfs {server.address}:/data /other && exec sleep 1000"
    client.run(f"systemd-run --quiet --unit=mounter sh -c {shlex.quote(script)}")
    client.run("for i in $(seq 100); do mountpoint --quiet /other && exit; sleep 0.1; done; exit 1")
    client.run("systemctl stop mounter && ls /other && umount /other")


@pytest.mark.parametrize(
    ("source", "options", "reason"),
    [
        ("{server}:/data", "nfsvers=3", "only NFS 4.1"),
        ("{server}:/missing", "rw", "no such file or directory"),
        ("{server}", "rw", "not SERVER:/EXPORT"),
        ("{server}:/data", "sec=krb5", "only sec=sys"),
    ],
)
def test_what_cannot_be_mounted_is_refused_with_the_reason(
    containers: tuple[Server, Container, Container], source: str, options: str, reason: str
) -> None:
    server, client, _ = containers
    words = source.format(server=server.address)
    said = client.run(f"mkdir -p /refused; mount -t nfs -o {options} {words} /refused; echo status $?", check=False)
    assert re.search(re.escape(reason), said, re.IGNORECASE), said
    assert "status 32" in said
