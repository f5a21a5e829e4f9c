"""What members publish is restored by the role's program; files and rows that do not agree are named."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from strata.catalogue.backup_items import backup_exclude, backup_items
from strata.site_file.loader import load_site
from strata_bench.backup_host import BackupHost, backup_server
from strata_bench.s3 import S3Server
from strata_bench.services import PostgreSQL, service_commands
from strata_services.hub_mirror.service import SERVICE, published

from .conftest import Mirror, StartMirror
from .fake_hub import FakeHub, Repo
from .test_hub_mirror_publishing import commit, create, file, link

pytestmark = pytest.mark.xdist_group("s3-server")  # one at a time: its management socket has one name in a network

OPEN, CLOSED = "hep/keywords", "hep/private"
FILES = "export/hub-mirror-published"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """The endpoint of the backups."""
    with backup_server(tmp_path_factory.mktemp("hub-backup-s3"), "hub-backups", "a-secret-key") as store:
        yield store


def database(mirror: Mirror) -> str:
    """Name of its database."""
    return str(environment(mirror)["HUB_MIRROR_DATABASE_NAME"])


def environment(mirror: Mirror) -> dict[str, str]:
    """Settings of its commands."""
    database: dict[str, str] = json.loads((mirror.storage / "database.json").read_text())
    paths = {"HUB_MIRROR_STORAGE_PATH": str(mirror.storage), "HUB_MIRROR_PUBLISHED_PATH": str(mirror.published)}
    return {**database, **paths}


def check(mirror: Mirror, *options: str) -> subprocess.CompletedProcess[str]:
    """`hub-mirror check`."""
    return service_commands("hub-mirror")(environment(mirror), "check", *options)


def content(mirror: Mirror, name: str, path: str, *tenants: str) -> bytes | int:
    """A file for a member of these tenants; the status if it is not a success."""
    response = mirror.get(f"/{name}/resolve/main/{path}", mirror.token("ben", *tenants) if tenants else None)
    return response.content if response.ok else response.status_code


@pytest.fixture
def host(mirror: Mirror, server: S3Server, postgresql: PostgreSQL, tmp_path: Path) -> BackupHost:
    """A host that backs up the mirror's database and both of its volumes."""
    items = {FILES: str(mirror.published), f"database/{database(mirror)}": database(mirror)}
    made = BackupHost(tmp_path / database(mirror), server, postgresql, items)
    made.run("open")
    return made


def restore(host: BackupHost, mirror: Mirror, *, files: bool = True, rows: bool = True) -> None:
    """The last snapshots in place of what there is, while the mirror runs."""
    if rows:
        host.run(*host.restore(f"database/{database(mirror)}", database(mirror), "--overwrite"))
    if files:
        host.run(*host.restore(FILES, mirror.published, "--overwrite"))


def test_repositories_come_back_with_their_files(hub: FakeHub, mirror: Mirror, host: BackupHost) -> None:
    create(mirror), create(mirror, "private", private=True), create(mirror, "theirs", "bio")
    assert commit(mirror, OPEN, file("config.json", b"{}"), file("w.bin", b"weights")).status_code == 200
    assert commit(mirror, CLOSED, file("config.json", b"{}")).status_code == 200
    before = mirror.get(f"/api/models/{OPEN}").json()
    host.run("run")
    token = mirror.token("ada", "hep")
    for name in (OPEN, CLOSED):
        assert mirror.get("/api/repos/delete", token, method="DELETE", json={"name": name}).status_code == 200
    assert commit(mirror, "bio/theirs", file("late", b"late"), token=mirror.token("eve", "bio")).status_code == 200
    assert not [path for path in (mirror.published / "hep").rglob("*") if path.is_file()]
    restore(host, mirror)
    assert mirror.get(f"/api/models/{OPEN}").json() == before
    assert content(mirror, OPEN, "w.bin") == b"weights"
    assert content(mirror, CLOSED, "config.json", "hep") == b"{}"
    assert content(mirror, CLOSED, "config.json", "bio") == 404
    assert content(mirror, "bio/theirs", "late") == 404
    done = check(mirror)
    assert done.returncode == 0, done.stdout
    assert "0 files are missing; 0 files" in done.stdout
    # it is in use as before
    assert commit(mirror, OPEN, file("next", b"next")).status_code == 200
    assert content(mirror, OPEN, "next") == b"next"


def test_a_repository_without_its_files_is_named_and_published_again(
    hub: FakeHub, mirror: Mirror, host: BackupHost
) -> None:
    create(mirror)
    assert commit(mirror, OPEN, file("kept", b"kept")).status_code == 200
    host.run("run")
    head = commit(mirror, OPEN, file("small", b"small")).json()["commitOid"]
    url, sha = link(mirror, b"large")
    assert requests.put(url, data=b"large", timeout=60).status_code == 200
    large = ("lfsFile", {"path": "large", "oid": sha, "size": 5})
    head = commit(mirror, OPEN, large).json()["commitOid"]
    restore(host, mirror, rows=False)
    done = check(mirror)
    assert done.returncode == 1, done.stdout
    for path in ("large", "small"):
        assert f"models/{OPEN} at {head}: {path} (5 bytes) is missing\n" in done.stdout
    assert done.stdout.count(" is missing\n") == 2
    assert content(mirror, OPEN, "kept") == b"kept"
    lost = mirror.get(f"/{OPEN}/resolve/main/large")
    assert (lost.status_code, "publish the file again" in lost.text) == (500, True)
    # a client uploads what the hub does not have
    url, _ = link(mirror, b"large")
    assert requests.put(url, data=b"large", timeout=60).status_code == 200
    assert commit(mirror, OPEN, large, file("small", b"small")).status_code == 200
    assert content(mirror, OPEN, "large") == b"large"
    assert check(mirror).returncode == 0


def test_files_of_no_repository_are_deleted_only_when_that_is_asked_for(
    hub: FakeHub, mirror: Mirror, host: BackupHost, postgresql: PostgreSQL
) -> None:
    create(mirror)
    host.run("run")
    assert commit(mirror, OPEN, file("old", b"old"), file("new", b"new"), file("kept", b"kept")).status_code == 200
    old, *others = sorted((mirror.published / "hep").glob("*/*"), key=lambda path: path.read_bytes() != b"old")
    os.utime(old, (0, 0))
    restore(host, mirror, files=False)
    done = check(mirror)
    assert (done.returncode, "3 files (10 bytes) are of no repository" in done.stdout) == (0, True), done.stdout
    assert old.exists()
    assert "deleted 1 files" in check(mirror, "--delete-unused").stdout
    assert not old.exists()
    assert all(path.exists() for path in others), "they may be uploads of now"
    os.utime(others[0], (0, 0))
    postgresql.sql("DELETE FROM repositories", database(mirror))
    refused = check(mirror, "--delete-unused")
    assert (refused.returncode, "restore it before you delete files" in refused.stderr) == (2, True)
    assert others[0].exists(), "an empty database names nothing"


def test_files_of_earlier_releases_are_moved(hub: FakeHub, mirror: Mirror, start_mirror: StartMirror) -> None:
    create(mirror)
    assert commit(mirror, OPEN, file("a", b"text"), file("b", b"more")).status_code == 200
    former = mirror.storage / "published"
    former.mkdir()
    (mirror.published / "hep").rename(former / "hep")
    (mirror.storage / "uploads").mkdir()
    assert content(mirror, OPEN, "a") == 500
    for moved in (2, 0):
        done = service_commands("hub-mirror")(environment(mirror), "relocate")
        assert (done.returncode, done.stdout) == (0, f"moved {moved} files\n"), done.stderr
    assert (content(mirror, OPEN, "a"), content(mirror, OPEN, "b")) == (b"text", b"more")
    assert not former.exists()
    assert not (mirror.storage / "uploads").exists()
    assert check(mirror).returncode == 0


def test_a_backup_has_what_tenants_publish_and_no_cached_file(
    hub: FakeHub, mirror: Mirror, host: BackupHost, lab_with: Callable[..., Path], tmp_path: Path
) -> None:
    site = load_site(lab_with(SERVICE))
    settings = SERVICE.of(site)
    assert settings is not None
    items = backup_items(site, ("nfs_server", "postgresql"))
    assert items[FILES] == str(published(settings).path(site))
    assert items["database/hub_mirror"] == "hub_mirror"
    assert backup_exclude(site, ("postgresql",)) == []
    claims = Path(items["export/claims"])
    # the volume of the cache as the storage class names it, in a copy of the server's directory
    volume = tmp_path / "claims" / "strata-system-hub-mirror-pvc-8b4f"
    hub.repos["models/google/tiny"] = Repo({"x": b"cached"})
    assert content(mirror, "google/tiny", "x") == b"cached"
    assert mirror.cached
    shutil.copytree(mirror.storage / "blobs", volume / "blobs")
    shutil.copytree(mirror.storage / "partial", volume / "partial")
    (volume / "partial" / "part").write_text("arrives")
    (neighbor := tmp_path / "claims" / "research-hub-mirror-pvc-1" / "blobs").mkdir(parents=True)
    (neighbor / "mine").write_text("a tenant's")
    patterns = [
        str(tmp_path / "claims" / Path(path).relative_to(claims)) for path in backup_exclude(site, ("nfs_server",))
    ]
    assert len(patterns) == 2
    host.write(items={"export/claims": str(tmp_path / "claims")}, exclude=patterns)
    host.run("run")
    host.run(*host.restore("export/claims", tmp_path / "restored"))
    assert [path.name for path in (tmp_path / "restored").rglob("*") if path.is_file()] == ["mine"]
