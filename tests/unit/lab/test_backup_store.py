"""The lab's backup store: whose it is, what it is made from, and when it is made again."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from strata.catalogue.backup_items import ACCESS_KEY, PASSWORD, SECRET_KEY
from strata.errors import UserError
from strata.models.site import Site
from strata.progress import Silent
from strata.provider import provider_of
from strata.scaffold.site import new_site
from strata.site.paths import SitePaths
from strata.site.secrets import SecretStore
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site
from strata_lab import backup_store, drift, images
from strata_lab.network import container as network

NAME = "strata-lab-backup-store"


@pytest.fixture
def site() -> Site:
    """The lab as it is committed."""
    return load_site(find_site("lab"))


@pytest.fixture
def paths(state_directory: Path) -> SitePaths:
    """An empty state directory."""
    return SitePaths("lab").create()


class Podman:
    """A podman with at most the store's container."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.status: str | None = None
        self.label, self.responds = "", True
        self.calls: list[tuple[str, ...]] = []
        self.files: dict[str, str] = {}
        monkeypatch.setattr(backup_store, "podman", self)
        monkeypatch.setattr(backup_store, "exists", lambda *_: False)
        monkeypatch.setattr(backup_store, "container_status", lambda _: self.status)
        monkeypatch.setattr(drift, "container_status", lambda name: self.status if name == NAME else "running")
        monkeypatch.setattr(backup_store, "copy_in", lambda _, files: self.files.update(files))
        monkeypatch.setattr(backup_store, "_responds", lambda *_: self.responds)
        monkeypatch.setattr(backup_store, "container_label", lambda *_: self.label)
        monkeypatch.setattr(backup_store, "START_SECONDS", 0.0)
        monkeypatch.setattr(backup_store, "HUNG_SECONDS", 0.0)
        monkeypatch.setattr(images, "ensure_node_image", lambda release, _: f"debian:{release}")
        monkeypatch.setattr(
            "strata.toolchain.ensure", lambda *_: {backup_store.SERVER: SimpleNamespace(path=Path("/tools/s3"))}
        )

    def __call__(self, *arguments: str) -> str:
        self.calls.append(arguments)
        if arguments[0] == "create":
            labels = [value for option, value in itertools.pairwise(arguments) if option == "--label"]
            self.label = next(label for label in labels if backup_store.CONTENT_LABEL in label).partition("=")[2]
        elif arguments[0] in ("start", "restart"):
            self.status, self.responds = "running", True
        elif arguments[0] == "rm" and "--time" in arguments:
            self.status = None
        return ""

    def did(self) -> list[str]:
        """Subcommands since the last call."""
        commands = [call[0] for call in self.calls]
        self.calls.clear()
        return commands


@pytest.fixture
def podman(monkeypatch: pytest.MonkeyPatch) -> Podman:
    return Podman(monkeypatch)


@pytest.fixture
def up(site: Site, paths: SitePaths, podman: Podman) -> Callable[[], bool]:
    podman.calls.clear()
    return lambda: backup_store.up(site, paths, "strata-lab-control", Silent())


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://10.87.0.9", "10.87.0.9"),
        ("https://10.87.0.9:443/", "10.87.0.9"),
        ("https://10.87.0.9:7480", None),
        ("https://10.87.0.9/s3", None),
        ("https://s3.example.org", None),
    ],
)
def test_only_backups_that_go_to_its_address_need_the_store(site: Site, url: str, address: str | None) -> None:
    assert site.hosts.backup is not None
    backup = site.hosts.backup.model_copy(update={"url": url})
    changed = site.model_copy(update={"hosts": site.hosts.model_copy(update={"backup": backup})})
    assert backup_store.store_address(changed) == address
    none = site.model_copy(update={"hosts": site.hosts.model_copy(update={"backup": None})})
    assert backup_store.store_address(none) is None


def test_a_copy_of_the_lab_has_a_store_of_its_own(site: Site, tmp_path: Path) -> None:
    copied = load_site(new_site("fresh", find_site("lab"), tmp_path, provider_of(site).local_networks().values()))
    assert backup_store.store_address(copied) is not None
    assert backup_store.store_address(copied) != backup_store.store_address(site)


def test_a_second_up_changes_nothing(up: Callable[[], bool], podman: Podman) -> None:
    assert up()
    assert [name for name in podman.did() if name != "rm"] == ["volume", "create", "cp", "rename", "start"]
    assert not up()
    assert podman.did() == []


def test_a_stopped_store_is_started_and_one_that_hangs_is_restarted(
    up: Callable[[], bool], podman: Podman, site: Site
) -> None:
    up()
    podman.did()
    podman.status = "exited"
    assert backup_store.start(site)
    assert not backup_store.start(site)
    assert podman.did() == ["start"]
    podman.responds = False
    assert up()
    assert podman.did() == ["restart"]


def test_a_store_that_does_not_respond_is_named(
    up: Callable[[], bool], podman: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_store, "_responds", lambda *_: False)
    with pytest.raises(UserError, match=r"the backup store \(10\.87\.0\.9\) does not respond") as caught:
        up()
    assert podman.calls
    assert f"podman logs {NAME}" in str(caught.value.fix)


def test_another_key_makes_another_container_and_keeps_the_data(up: Callable[[], bool], podman: Podman) -> None:
    up()
    before = podman.files["root/backup-store/secret-key"]
    podman.calls.clear()
    SecretStore.open("lab").rotate(SECRET_KEY)
    assert up()
    assert podman.files["root/backup-store/secret-key"] != before
    assert f"--volume {NAME}:/srv/store" in next(" ".join(call) for call in podman.calls if call[0] == "create")
    assert not any(call[:2] == ("volume", "rm") for call in podman.calls)


def test_secrets_are_in_no_argument_and_the_key_is_called_like_the_bucket(
    up: Callable[[], bool], podman: Podman, site: Site
) -> None:
    up()
    secrets = SecretStore.open("lab")
    said = " ".join(part for call in podman.calls for part in call)
    for name in (SECRET_KEY, PASSWORD):
        assert secrets.get(name) not in said
    key = podman.files["root/backup-store/server.pem"]
    assert "PRIVATE KEY" in key
    assert "PRIVATE KEY" not in said
    assert site.hosts.backup is not None
    assert secrets.get(ACCESS_KEY) == site.hosts.backup.bucket
    secrets.rotate(ACCESS_KEY)
    up()
    assert secrets.get(ACCESS_KEY) == site.hosts.backup.bucket
    assert {ACCESS_KEY, PASSWORD} <= provider_of(site).lasting_secrets


def test_drift_names_it(up: Callable[[], bool], podman: Podman, site: Site) -> None:
    up()
    assert drift.lab_drift(site) == []
    podman.status = "exited"
    (difference,) = drift.lab_drift(site)
    assert (difference.object, difference.found) == (f"backup store: container {NAME}", "exited")


def test_the_network_agent_is_made_again_when_the_store_moves(site: Site) -> None:
    none = site.model_copy(update={"hosts": site.hosts.model_copy(update={"backup": None})})
    assert network._wanted(site).endswith("-10.87.0.9-10.77.0.0/24")
    assert network._wanted(none) == network._wanted(site).removesuffix("-10.87.0.9-10.77.0.0/24")
