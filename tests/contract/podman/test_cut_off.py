"""podman killed while it creates or removes a container, as by a power cut: what it leaves, and what we do."""

from __future__ import annotations

import functools
import io
import os
import shutil
import signal
import subprocess
import tarfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strata.access.podman import (
    SITE_LABEL,
    PodmanError,
    container_status,
    exists,
    list_containers,
    partially_created,
    podman,
    site_containers,
)
from strata.images.build import remove_cut_off_builds
from strata.retry import wait_until
from strata_lab import container_recovery

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("podman") is None, reason="needs podman, and root, whose podman the lab uses"
)


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """An image with nothing in it."""
    reference = f"localhost/strata-cut-off:{uuid.uuid4().hex[:12]}"
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w"):
        pass
    podman("import", "-", reference, stdin=archive.getvalue())
    yield reference
    podman("rmi", "--force", reference)


@pytest.fixture
def site() -> Iterator[str]:
    """Name of a site that nobody has."""
    name = f"cut-off-{uuid.uuid4().hex[:8]}"
    yield name
    for left in by_name(name):
        podman("rm", "--force", "--time", "0", left)


def by_name(site: str) -> list[str]:
    """Names of all containers, halves included, that are called as those of the site."""
    return [c["Names"][0] for c in list_containers("--external") if c["Names"][0].startswith(f"strata-{site}-")]


@functools.cache
def storage_index() -> Path:
    """Where storage lists the containers that it has."""
    return Path(podman("info", "--format", "{{.Store.GraphRoot}}").strip(), "overlay-containers", "containers.json")


def killed(*arguments: str, entry: str, present: bool) -> bool:
    """Runs podman and kills it as soon as storage lists the entry, or not; whether it was killed before its end."""
    index = storage_index()
    with subprocess.Popen(["podman", *arguments], stdout=subprocess.DEVNULL) as run:
        while run.poll() is None:
            # missing as long as there has been no container on this machine
            if (index.exists() and entry in index.read_text()) is present:
                run.send_signal(signal.SIGKILL)
                break
    return run.returncode == -signal.SIGKILL


def create(site: str, name: str, image: str) -> str:
    """A container as the lab labels it; returns its identifier."""
    return podman("create", "--name", name, "--label", f"{SITE_LABEL}={site}", image, "/none").strip()


# The half state lasts some milliseconds: on a busy machine podman is at times through before we look.
ATTEMPTS = 20


def leave_half(name: str, image: str, attempt: Callable[[], bool], half: Callable[[str], bool]) -> None:
    """Tries until the container is left partially; what an attempt in vain leaves is removed."""
    for _ in range(ATTEMPTS):
        if attempt():
            announce_write(image)
            if half(name):
                return
        podman("rm", "--force", "--ignore", name)
    pytest.fail(f"podman was through before it was killed, {ATTEMPTS} times")


def announce_write(image: str) -> None:
    """Has the podman processes of other tests read storage's list again.

    Debian 12's writes the list, and then shows the others that it did (containers/storage's pull request 1603 turned it
    round); of one that is killed in between they never learn, and one that runs may write the list that it read before.
    """
    podman("rm", podman("create", image, "/none").strip())


def cut_off_creation(name: str, image: str) -> None:
    """Leaves a container that is in storage and that podman does not know."""

    def attempt() -> bool:
        return killed("create", "--name", name, image, "/none", entry=name, present=True)

    leave_half(name, image, attempt, left)


def cut_off_removal(site: str, name: str, image: str) -> None:
    """Leaves a container that podman knows and that is no longer in storage."""

    def attempt() -> bool:
        identifier = create(site, name, image)
        return killed("rm", "--force", name, entry=identifier, present=False)

    leave_half(name, image, attempt, taken_out)


def known(name: str) -> bool:
    """Whether podman's own list has the container."""
    return name in podman("ps", "--all", "--format", "{{.Names}}").split()


def left(name: str) -> bool:
    """Whether storage holds the container, which podman's own list has not."""
    return name in [c["Names"][0] for c in list_containers("--external")] and not known(name)


def taken_out(name: str) -> bool:
    """Whether podman's own list has the container, which storage holds no longer."""
    return known(name) and name not in storage_index().read_text()


def test_a_removal_that_was_cut_off_is_finished(site: str, image: str) -> None:
    name, other = f"strata-{site}-controller", f"strata-{site}-network"
    create(site, other, image)
    cut_off_removal(site, name, image)
    with pytest.raises(PodmanError, match="container not known"):
        podman("container", "inspect", name)
    assert container_status(name) == "removing"
    assert partially_created(site) == [name]
    assert container_recovery.reconcile(site) == [name]
    assert not exists("container", name)
    assert site_containers(site) == [other]
    assert container_recovery.reconcile(site) == []


INSTANCE = "0d6cfa4e-6a43-4a3c-9b0b-3cf2b6f4f0a1"


CREATED = ["controller", "controller-new", "backup-store-new", "network", INSTANCE, f"{INSTANCE}-before"]


@pytest.mark.parametrize("last", CREATED)
def test_a_creation_that_was_cut_off_is_removed(site: str, image: str, last: str) -> None:
    name = f"strata-{site}-{last}"
    cut_off_creation(name, image)
    assert not exists("container", name)
    assert container_status(name) is None
    assert partially_created(site) == [name]
    assert container_recovery.reconcile(site) == [name]
    assert by_name(site) == []
    create(site, name, image)


def test_another_sites_halves_are_not_ours(site: str, image: str) -> None:
    name = f"strata-{site}-two-controller"
    cut_off_creation(name, image)
    assert partially_created(site) == []
    assert partially_created(f"{site}-two") == [name]


def cut_off_build(image: str, folder: Path) -> str:
    """Leaves the working container of a build; its name."""
    (folder / "file").touch()
    (folder / "Containerfile").write_text(f"FROM {image}\nCOPY file /\n")
    repository, _, tag = image.partition(":")
    name = f"{Path(repository).name}-working-container"

    def attempt() -> bool:
        build = ("build", "--no-cache", "--quiet", f"--tag={repository}-built:{tag}", str(folder))
        return killed(*build, entry=name, present=True)

    leave_half(name, image, attempt, left)
    podman("rmi", "--force", "--ignore", f"{repository}-built:{tag}")
    return name


def removed(name: str) -> bool:
    """Whether the container is removed, once other tests' builds have ended; each of theirs may remove it too."""

    def waiting_for() -> str | None:
        remove_cut_off_builds()
        return name if left(name) else None

    return wait_until(waiting_for, 60) is None


def test_a_build_that_was_cut_off_is_removed(image: str, tmp_path: Path) -> None:
    assert removed(cut_off_build(image, tmp_path))


def test_while_a_build_runs_no_working_container_is_removed(image: str, tmp_path: Path) -> None:
    """It does not say whose it is."""
    containerfile = tmp_path / "slow"
    os.mkfifo(containerfile)
    with subprocess.Popen(["podman", "build", f"--file={containerfile}", str(tmp_path)]) as build:
        try:
            name = cut_off_build(image, tmp_path)
            assert remove_cut_off_builds() == []
            assert left(name)
        finally:
            build.kill()
    assert removed(name)
