"""The role's program with real restic, PostgreSQL and S3: what comes back is what was there, byte by byte."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from strata.retry import wait_until
from strata_bench.backup_host import PASSWORD, BackupHost, backup_server
from strata_bench.s3 import S3Server
from strata_bench.services import PostgreSQL

pytestmark = pytest.mark.xdist_group("s3-server")  # one at a time: its management socket has one name in a network

BUCKET, KEY = "site-backups", "a-secret-key"
EXPORT, DATABASE = "export/homes", "database/results"
STARTS_WITHIN = 120.0
"""Seconds after which a backup has stored something on the slowest machine."""


@dataclass
class Host(BackupHost):
    """A host with homes and a database."""

    @property
    def exported(self) -> Path:
        """Directory of the export."""
        return self.root / "homes"


def make_host(root: Path, server: S3Server, postgresql: PostgreSQL) -> Host:
    """Backs up both."""
    return Host(root, server, postgresql, {EXPORT: str(root / "homes"), DATABASE: "results"})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with backup_server(tmp_path_factory.mktemp("backup-s3"), BUCKET, KEY) as store:
        yield store


@pytest.fixture(scope="module")
def host(server: S3Server, postgresql: PostgreSQL, tmp_path_factory: pytest.TempPathFactory) -> Host:
    """A host with one backup of an export and a database."""
    prepared = make_host(tmp_path_factory.mktemp("host"), server, postgresql)
    fill(prepared.exported)
    postgresql.create_database("results", "RESULTS")
    postgresql.sql(
        "CREATE ROLE reader; SET ROLE results; CREATE EXTENSION btree_gist; CREATE SCHEMA runs; "
        "CREATE TABLE runs.run (id serial PRIMARY KEY, name text UNIQUE, data bytea, at timestamptz DEFAULT now()); "
        "ALTER TABLE runs.run ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON runs.run USING (name = current_user); "
        "GRANT SELECT ON runs.run TO reader; "
        "INSERT INTO runs.run (name, data) SELECT 'ü' || n, sha256(n::text::bytea) FROM generate_series(1, 2000) n",
        "results",
    )
    assert prepared.run("open") == "created"
    assert prepared.run("open") == "opened"
    assert prepared.run("problems") == ""
    prepared.run("run")
    return prepared


def fill(directory: Path) -> None:
    """Files as homes have them."""
    (directory / "ada" / "empty folder").mkdir(parents=True)
    (directory / "ada" / "notebook ä\n.ipynb").write_bytes(secrets.token_bytes(3 << 20))
    (directory / "ada" / "empty").touch()
    (directory / "ada" / "link").symlink_to("empty folder")
    (directory / "ada" / "dangling").symlink_to("/nowhere")
    os.link(directory / "ada" / "empty", directory / "ada" / "second name")
    (directory / "ada" / "run.sh").write_text("#!/bin/sh\n")
    (directory / "ada" / "run.sh").chmod(0o750)
    with (directory / "sparse").open("wb") as file:
        file.truncate(5 << 20)
    os.utime(directory / "sparse", ns=(1, 1_600_000_000_123_456_789))
    if os.geteuid() == 0:
        for path in (directory / "ada", *(directory / "ada").iterdir()):
            os.chown(path, 20001, 100, follow_symlinks=False)
        os.setxattr(directory / "sparse", "user.etag", b"1234")


def content_of(directory: Path) -> dict[str, tuple[object, ...]]:
    """Everything of a tree that a restore must bring back."""
    entries: dict[str, tuple[object, ...]] = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        if path.is_symlink():
            content = path.readlink().as_posix()
        else:
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        attributes = os.listxattr(path, follow_symlinks=False)
        name = str(path.relative_to(directory))
        entries[name] = (status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns, content, attributes)
    return entries


def dump(postgresql: PostgreSQL, database: str) -> str:
    """A database as SQL, without the random keys that newer releases frame it with."""
    command = [str(postgresql.binaries / "pg_dump"), "-h", str(postgresql.directory), "-p", str(postgresql.port)]
    text = subprocess.run([*command, "-U", "admin", database], capture_output=True, text=True, check=True).stdout
    return re.sub(r"^\\(un)?restrict .*$", "", text, flags=re.MULTILINE)


def test_files_come_back_as_they_were(host: Host, tmp_path: Path) -> None:
    before, mode = content_of(host.exported), host.exported.stat().st_mode
    assert len(before) == 9
    said = host.run(*host.restore(EXPORT, tmp_path / "copy", "--dry-run"))
    assert said.startswith("would restore")
    assert not (tmp_path / "copy").exists()
    host.run(*host.restore(EXPORT, tmp_path / "copy"))
    assert content_of(tmp_path / "copy") == before
    assert (tmp_path / "copy").stat().st_mode == mode
    (snapshot,) = host.snapshots(EXPORT)
    shutil.rmtree(host.exported)
    host.run(*host.restore(EXPORT, host.exported, snapshot=snapshot))
    assert content_of(host.exported) == before


def test_files_are_replaced_only_when_that_is_asked_for(host: Host) -> None:
    before = content_of(host.exported)
    (host.exported / "ada" / "run.sh").write_text("destroyed, and longer than it was\n")
    (host.exported / "ada" / "link").unlink()
    (host.exported / "new").write_text("of today")
    changed = content_of(host.exported)
    assert "is not empty" in host.refused(*host.restore(EXPORT, host.exported))
    host.run(*host.restore(EXPORT, host.exported, "--overwrite", "--dry-run"))
    assert content_of(host.exported) == changed
    former = Path(host.run(*host.restore(EXPORT, host.exported, "--overwrite")).split()[-1])
    assert content_of(former) == changed
    shutil.rmtree(former)
    assert content_of(host.exported) == before


def test_a_database_comes_back_as_it_was(host: Host, postgresql: PostgreSQL) -> None:
    before = dump(postgresql, "results")
    assert "Data for Name: run" in before
    postgresql.sql("DROP DATABASE results")
    postgresql.sql("DROP ROLE reader")
    host.run(*host.restore(DATABASE, "results"))
    assert dump(postgresql, "results") == before
    owner = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'results'"
    assert postgresql.sql(owner) == "results"


def test_a_database_gives_up_its_name_only_when_that_is_asked_for(host: Host, postgresql: PostgreSQL) -> None:
    before = dump(postgresql, "results")
    postgresql.sql("DELETE FROM runs.run", "results")
    assert "there is a database results already" in host.refused(*host.restore(DATABASE, "results"))
    assert postgresql.sql("SELECT count(*) FROM runs.run", "results") == "0"
    host.run(*host.restore(DATABASE, "results_copy"))
    assert dump(postgresql, "results_copy") == before
    # with a session that is open, as of a service
    command = [str(postgresql.binaries / "psql"), "-h", str(postgresql.directory), "-p", str(postgresql.port)]
    with subprocess.Popen(
        [*command, "-U", "admin", "-qAt", "results"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as session:
        assert session.stdin is not None
        assert session.stdout is not None
        session.stdin.write("SELECT 'connected';\n")
        session.stdin.flush()
        assert session.stdout.readline() == "connected\n"
        said = host.run(*host.restore(DATABASE, "results", "--overwrite"))
        session.stdin.close()
    former = said.split()[-1]
    assert dump(postgresql, "results") == before
    assert postgresql.sql("SELECT count(*) FROM runs.run", former) == "0"
    assert "_new_" not in postgresql.sql("SELECT string_agg(datname, ' ') FROM pg_database")


def test_nothing_leaves_the_host_unencrypted_and_no_dump_stays(host: Host, server: S3Server) -> None:
    stored = b"".join(path.read_bytes() for path in server.folder.rglob("*") if path.is_file())
    assert stored
    for text in (b"#!/bin/sh", b"run.sh", b"CREATE TABLE", b"runs.run", PASSWORD.encode()):
        assert text not in stored
    left = {path.name for path in (host.root / "work").iterdir()}
    assert left == {"state.json", "state.lock", "run.lock"}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"RESTIC_PASSWORD": "another"}, "wrong password"),
        ({"AWS_SECRET_ACCESS_KEY": "another"}, "Access Denied"),
        ({"AWS_ACCESS_KEY_ID": "another"}, "Access Denied"),
    ],
    ids=["password", "secret key", "access key"],
)
def test_a_wrong_key_opens_nothing(host: Host, wrong: dict[str, str], why: str) -> None:
    stranger = make_host(host.root.parent / f"{host.root.name}-{next(iter(wrong))}", host.server, host.postgresql)
    shutil.copytree(host.exported, stranger.exported, symlinks=True)
    right = json.loads((host.root / "configuration.json").read_text())["environment"]
    stranger.write(environment=right | wrong | {"RESTIC_CACHE_DIR": str(stranger.root / "cache")})
    assert re.search(why, stranger.refused("run"))
    assert re.search(why, stranger.refused("list"))
    assert re.search(f"{EXPORT}: the last backup failed: .*({why})", stranger.run("problems"))
    stored = content_of(host.server.folder)
    assert re.search(why, stranger.refused("open"))
    assert content_of(host.server.folder) == stored


def test_what_is_left_out_is_in_no_snapshot(host: Host, tmp_path: Path) -> None:
    """A folder of one volume, whose name is not known in advance; the same name elsewhere is in the backup."""
    cached, kept = host.exported / "hub-pvc-1" / "blobs", host.exported / "ada" / "blobs"
    for folder in (cached, kept):
        (folder / "ab").mkdir(parents=True)
        (folder / "ab" / "model").write_text(str(folder))
    host.write(exclude=[f"{host.exported}/hub-pvc-*/blobs"])
    try:
        host.run("run")
        host.run(*host.restore(EXPORT, tmp_path / "copy"))
        assert [path.relative_to(tmp_path / "copy") for path in (tmp_path / "copy").rglob("model")] == [
            Path("ada/blobs/ab/model")
        ]
    finally:
        host.write(exclude=[])
        shutil.rmtree(cached.parent)
        shutil.rmtree(kept)


def test_an_empty_directory_is_a_failure_only_if_it_was_not(host: Host) -> None:
    """Nothing is in the volumes of a new site; a file system that is not mounted must be noticed."""
    (new := host.root / "new").mkdir()
    try:
        host.write(items={"export/new": str(new)})
        host.run("run")
        assert host.run("problems") == ""
        assert host.snapshots("export/new") == []
        (new / "file").touch()
        host.run("run")
        (new / "file").unlink()
        assert "export/new: " in host.refused("run")
        assert "is empty, and its last snapshot is not" in host.run("problems")
        assert len(host.snapshots("export/new")) == 1
    finally:
        host.write(items=host.items)


def test_one_failure_leaves_the_others_and_is_reported(host: Host) -> None:
    before = len(host.snapshots(EXPORT))
    host.write(items={"export/gone": "/nowhere", "database/gone": "gone", EXPORT: str(host.exported)})
    try:
        said = host.refused("run")
        assert "export/gone: there is no directory /nowhere" in said
        assert 'database "gone" does not exist' in said
        # of one day the last snapshot is kept
        assert len(host.snapshots(EXPORT)) == before == 1
        lines = host.run("problems").splitlines()
        assert [line.partition(":")[0] for line in lines] == ["export/gone", "database/gone"]
        state = json.loads((host.root / "work" / "state.json").read_text())
        metrics = (host.root / "metrics.prom").read_text()
        when = f"{state[EXPORT]['success']:.0f}"
        assert f'strata_backup_last_success_timestamp_seconds{{item="{EXPORT}"}} {when}\n' in metrics
        assert 'strata_backup_last_success_timestamp_seconds{item="export/gone"} 0\n' in metrics
        host.write(maximum_age_seconds=-1)
        assert f"{EXPORT}: no backup for 0 h" in host.run("problems").splitlines()
    finally:
        host.write(items={EXPORT: str(host.exported), DATABASE: "results"}, maximum_age_seconds=3600)


def test_a_damaged_repository_is_named_and_nothing_is_removed_from_it(host: Host, server: S3Server) -> None:
    packs = [path for path in server.folder.rglob("*") if path.is_file() and "data" in path.parts]
    # the run after this one has no file of its own that is missing, and restic's index states that it is there
    pack = max(packs, key=lambda path: path.stat().st_size)
    held = host.root / "held"
    pack.rename(held)
    try:
        assert "repository: restic: " in host.refused("run")
        (line,) = host.run("problems").splitlines()
        assert line.startswith("repository: the last backup failed: restic: ")
        assert pack.name[:8] in line
        metrics = (host.root / "metrics.prom").read_text()
        assert 'strata_backup_due_timestamp_seconds{item="repository"}' in metrics
    finally:
        held.rename(pack)
    host.run("run")
    assert host.run("problems") == ""


def test_an_endpoint_that_does_not_respond_is_named(host: Host, server: S3Server) -> None:
    """It accepts connections, and states nothing: as a process that hangs."""
    right = json.loads((host.root / "configuration.json").read_text())["environment"]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hung = f"http://127.0.0.1:{silent.getsockname()[1]}"
        host.write(environment=right | {"RESTIC_REPOSITORY": right["RESTIC_REPOSITORY"].replace(server.url, hung)})
        try:
            assert host.run("problems").startswith("repository: does not open: no response within 4 s")
        finally:
            host.write(environment=right)
    assert host.run("problems") == ""


def test_what_cannot_be_restored_is_named(host: Host, tmp_path: Path) -> None:
    (known,) = host.snapshots(EXPORT)
    assert known in host.refused(*host.restore(EXPORT, tmp_path / "new", snapshot="01234567"))
    assert "has no snapshot" in host.refused(*host.restore("export/other", tmp_path / "new"))
    assert "is not an absolute path" in host.refused(*host.restore(EXPORT, "new"))
    (tmp_path / "file").touch()
    assert "is not a directory" in host.refused(*host.restore(EXPORT, tmp_path / "file", "--overwrite"))
    assert "too long a name" in host.refused(*host.restore(DATABASE, "x" * 50))


def test_a_run_waits_for_a_killed_one_that_is_not_reaped(host: Host, server: S3Server) -> None:
    """On a host whose first process reaps late: restic takes what is left of the process for one that runs."""
    configuration = json.loads((host.root / "configuration.json").read_text())
    command = ["restic", *configuration["restic_options"], "backup", "--stdin", "--tag=none"]
    environment = os.environ | configuration["environment"]
    before = host.snapshots(EXPORT)
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as killed:
        eventually(lambda: any(path.is_file() for path in server.folder.glob("**/locks/**/*")))
        killed.kill()
        process = host.start("run")
        # all that is left is to remove old snapshots, which needs the repository alone
        eventually(lambda: process.poll() is not None or host.snapshots(EXPORT) != before)
        time.sleep(2)
        assert process.poll() is None, process.communicate()[1]
    _, errors = process.communicate()
    assert process.returncode == 0, errors


def eventually(holds: Callable[[], bool]) -> None:
    """Waits until it holds."""
    assert wait_until(lambda: None if holds() else "it", STARTS_WITHIN, pause=0.02) is None


def files_of(folder: Path) -> set[Path]:
    """Files below a folder; a folder that goes meanwhile, as that of restic's locks does, has none."""
    return {Path(directory, name) for directory, _, names in os.walk(folder) for name in names}


def test_a_killed_backup_leaves_the_repository_usable(host: Host, server: S3Server) -> None:
    # packs of 4 MiB at 4 MiB/s: it is killed in the middle, wherever the machine lets it come to
    options = ["--option=s3.bucket-lookup=path", "--pack-size=4", "--limit-upload=4096"]
    (host.exported / "big").write_bytes(secrets.token_bytes(24 << 20))
    known = files_of(server.folder)
    before = host.snapshots(EXPORT)
    host.write(restic_options=options)
    process = host.start("run")

    def stored() -> bool:
        new = files_of(server.folder) - known
        return process.poll() is not None or any("data" in path.parts for path in new)

    eventually(stored)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    host.write(restic_options=options[:1])
    assert set(before) <= set(host.snapshots(EXPORT)), "what was there is there"
    host.run("run")
    configuration = json.loads((host.root / "configuration.json").read_text())
    environment = os.environ | configuration["environment"]
    check = ["restic", *options[:1], "check", "--read-data"]
    done = subprocess.run(check, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    content = content_of(host.exported)
    host.run(*host.restore(EXPORT, host.root / "after"))
    assert content_of(host.root / "after") == content
    assert not any("locks" in path.parts for path in files_of(server.folder))
