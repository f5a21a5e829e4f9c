"""The lab's homes and databases are backed up and come back; a store that is damaged, or does not respond, is named."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from strata.access.backups import ROLE
from strata.access.podman import podman
from strata.catalogue.site_volumes import MountedVolume, volumes
from strata.models.site import Site
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with
from strata.site.outputs import ImageOutputs
from strata.verify import pods
from strata.verify.pods import Kubectl, PodRequest
from strata_bench.waiting import eventually
from strata_lab.backup_store import container_name, store_address
from strata_services.jupyterhub.needs import homes
from strata_services.jupyterhub.service import SERVICE as JUPYTERHUB
from strata_services.ml_hub.service import SERVICE as ML_HUB

from .commands import psql, strata, strata_json
from .healing import up_again
from .lab_site import homes_volume, require_lab
from .service_parts import unhealthy

if TYPE_CHECKING:
    from testinfra.host import Host

pytestmark = pytest.mark.nightly

SECONDS = 300.0
"""In which services of a loaded machine connect to their database again."""
DATABASE = "ml_hub"
CREATE = "set role ml_hub; create table backup_test (x int); insert into backup_test values (1), (2)"
SUM = "select sum(x) from backup_test"
OWNER = "select tableowner from pg_tables where tablename = $$backup_test$$"
DROP = "drop table if exists backup_test"
BUCKETS = "/srv/store/buckets"
WAIT = "import time; time.sleep(10**6)"
WRITE = """
import os, pathlib, sys
folder = pathlib.Path(sys.argv[1])
(folder / "results").mkdir(parents=True)
(folder / "results" / "data ä.bin").write_bytes(os.urandom(1 << 20))
(folder / "run.sh").write_text("#!/bin/sh\\n")
(folder / "run.sh").chmod(0o750)
(folder / "private").write_text("mine\\n")
(folder / "private").chmod(0o600)
(folder / "link").symlink_to("results")
"""
LIST = """
import hashlib, json, pathlib, sys
output = {}
folder = pathlib.Path(sys.argv[1])
for path in sorted(folder.rglob("*")):
    status = path.lstat()
    content = str(path.readlink()) if path.is_symlink() else ""
    if path.is_file() and not path.is_symlink():
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    name = str(path.relative_to(folder))
    output[name] = [oct(status.st_mode), status.st_uid, status.st_gid, status.st_mtime_ns, content]
print(json.dumps(output))
"""


@dataclass(frozen=True)
class User:
    """A pod with the volume of the homes, as a notebook has it, and a folder of its own there.

    Args:
        kubectl: of the site.
        volume: with the homes.
        pod: name of the pod.
        folder: name of the folder.
    """

    kubectl: Kubectl
    volume: MountedVolume
    pod: str
    folder: str

    def python(self, program: str) -> str:
        """What a program prints that gets the folder's path."""
        command = ["exec", self.pod, "--", "python3", "-c", program, f"/volume/{self.folder}"]
        return str(self.kubectl("--namespace", self.volume.namespace, *command))

    def listing(self) -> dict[str, Any]:
        """Name to mode, owner, group, time and content of each file."""
        output: dict[str, Any] = json.loads(self.python(LIST))
        return output


@pytest.fixture(scope="module", autouse=True)
def lab_only(context: SiteContext, site: Site) -> None:
    """Other sites are not ours to damage."""
    require_lab(context)
    if store_address(site) is None or JUPYTERHUB.of(site) is None or ML_HUB.of(site) is None:
        pytest.skip(f"site {site.name} has no backup store, no notebooks, or no ML Hub")


@pytest.fixture(scope="module")
def server(context: SiteContext, site_host: Callable[[str], Host]) -> Host:
    """The host that stores homes and databases, and backs them up."""
    return site_host(hosts_with(ROLE, context.site, context.cloud_outputs)[0].name)


@pytest.fixture
def user(context: SiteContext, server: Host, kubectl: Kubectl, images: ImageOutputs) -> Iterator[User]:
    """With files in the folder."""
    notebooks = JUPYTERHUB.of(context.site)
    assert notebooks is not None
    (volume,) = (v for v in volumes(context.site) if v.claim == homes(notebooks).name and not v.read_only)
    name = f"backup-test-{secrets.token_hex(3)}"
    request = PodRequest(
        name=name,
        image=images.images["pod-base"],
        command=["python3", "-c", WAIT],
        claim=volume.claim,
        identity=(volume.owner, volume.group),
    )
    made = User(kubectl, volume, name, name)
    with ExitStack() as stack:
        stack.callback(server.check_output, f"rm -rf {homes_volume(context.site)}/{name}")
        stack.callback(pods.delete, kubectl, volume.namespace, name)
        pods.start(kubectl, volume.namespace, request)
        made.python(WRITE)
        yield made


def back_up(context: SiteContext) -> None:
    """`strata backup --now`; must succeed."""
    done = strata("backup", context.site_file, "--now")
    assert done.returncode == 0, done.stderr


def restore(context: SiteContext, what: str, target: str, *options: str) -> str:
    """What `strata restore` of the last snapshot states; must succeed."""
    done = strata("restore", context.site_file, "--what", what, "--target", target, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def healthy(context: SiteContext) -> bool:
    """Whether `strata status` finds nothing; fails with what it finds."""
    problems = unhealthy(context)
    assert not problems, problems
    return True


def test_files_of_a_home_come_back(context: SiteContext, server: Host, user: User) -> None:
    """Deleted by the user, restored beside the homes, and copied back as an operator does on a running site."""
    before = user.listing()
    assert len(before) == 5
    assert {owner for _, owner, *_ in before.values()} == {user.volume.owner}
    back_up(context)
    user.python("import shutil, sys; shutil.rmtree(sys.argv[1])")
    restored = f"/srv/{user.folder}"
    try:
        restore(context, f"export/{user.volume.claim}", restored)
        server.check_output(f"cp --archive {restored}/{user.folder} {homes_volume(context.site)}/")
    finally:
        server.check_output(f"rm -rf {restored}")
    # clients keep attributes for some seconds
    eventually(lambda: user.listing() == before, SECONDS, "the pod sees the files as they were")


def test_rows_of_a_database_come_back(context: SiteContext, server: Host) -> None:
    """In the place of a database that a service uses, whose sessions the restore ends."""
    psql(server, DATABASE, DROP)
    psql(server, DATABASE, CREATE)
    former = ""
    try:
        back_up(context)
        psql(server, DATABASE, DROP)
        former = restore(context, f"database/{DATABASE}", DATABASE, "--overwrite").split()[-1]
        assert psql(server, DATABASE, SUM) == "3"
        assert psql(server, DATABASE, OWNER) == DATABASE
        eventually(lambda: healthy(context), SECONDS, "the services use the restored database")
    finally:
        psql(server, DATABASE, DROP)
        if former:
            psql(server, "postgres", f"drop database {former} with (force)")


def test_a_damaged_store_is_named(context: SiteContext) -> None:
    """A file of the repository that is gone: by the next backup and by `strata status`; a healthy one is not."""
    assert context.site.hosts.backup is not None
    back_up(context)
    name = hosts_with(ROLE, context.site, context.cloud_outputs)[0].name
    folder = f"{BUCKETS}/{context.site.hosts.backup.bucket}/{context.site.name}/{name}/data"
    store = ("exec", container_name(context.site.name))
    (pack, *_) = podman(*store, "find", folder, "-type", "f").split()
    podman(*store, "mv", pack, f"{BUCKETS}/../held")
    try:
        done = strata("backup", context.site_file, "--now")
        assert done.returncode == 2, done.stderr
        assert f"{name}: repository: " in done.stderr, done.stderr
        assert f"{name}: repository" in unhealthy(context)
    finally:
        podman(*store, "mv", f"{BUCKETS}/../held", pack)
    back_up(context)
    assert healthy(context)


def test_a_stopped_store_is_named_and_started_again(context: SiteContext) -> None:
    """By its container, and by the host, which cannot reach it; a backup and verify say so, and `up` starts it."""
    name = hosts_with(ROLE, context.site, context.cloud_outputs)[0].name
    podman("stop", "--time", "10", container_name(context.site.name))
    try:
        problems = unhealthy(context)
        assert problems[f"{name}: repository"].startswith("does not open: "), problems
        _, answer, error = strata_json(context, "status")
        assert any(row["object"].startswith("backup store: ") for row in answer["drift"]["drift"]), error
        done = strata("verify", context.site_file, "-k", "backups_are_recent")
        assert done.returncode == 1
        assert "repository: does not open" in done.stdout + done.stderr
    finally:
        up = up_again(context)
    assert any(step["changed"] for step in up["steps"] if step["name"] in ("controller", "backup store")), up["steps"]
    assert healthy(context)
    assert up_again(context)["changed"] == 0
