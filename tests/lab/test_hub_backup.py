"""A model that a tenant has published is deleted, and comes back from the lab's backup store, rows and files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from strata.access.backups import ROLE
from strata.models.site import Site
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with
from strata.verify.pods import Kubectl, running_pods
from strata_bench.waiting import eventually
from strata_lab.backup_store import store_address
from strata_services.hub_mirror.service import DATABASE, SERVICE, published

from .commands import psql
from .lab_site import require_lab
from .test_backups import back_up, healthy, restore
from .test_hub_mirror import DELETE, LOAD, PUBLISH, TOKEN, WEIGHTS, run, url
from .test_pods import Member, ada, member, new_name

if TYPE_CHECKING:
    from testinfra.host import Host

__all__ = ["ada", "member", "run", "url"]
"""Fixtures."""
pytestmark = pytest.mark.nightly
SECONDS = 300.0
"""In which the mirror connects to its database again, and its node sees the restored files."""


@pytest.fixture(scope="module", autouse=True)
def lab_only(context: SiteContext, site: Site) -> None:
    """Other sites are not ours to restore."""
    require_lab(context)
    if store_address(site) is None or SERVICE.of(site) is None:
        pytest.skip(f"site {site.name} has no backup store, or no mirror of the Hub")


@pytest.fixture
def server(context: SiteContext, site_host: Callable[[str], Host]) -> Host:
    """The host that stores the mirror's database and the files, and backs them up."""
    return site_host(hosts_with(ROLE, context.site, context.cloud_outputs)[0].name)


@pytest.fixture
def volume(context: SiteContext, server: Host) -> Iterator[Path]:
    """Directory of the published files; what a restore has set aside is deleted at the end."""
    settings = SERVICE.of(context.site)
    assert settings is not None
    folder = published(settings).path(context.site)
    yield folder
    server.check_output(f"rm -rf {folder}/.before-*")


def check(kubectl: Kubectl, site: Site) -> str:
    """What the mirror finds missing or of no repository; fails where a file is missing."""
    namespace = SERVICE.namespace_of(site)
    pod = running_pods(kubectl, SERVICE.name, namespace)[0]["metadata"]["name"]
    command = ("python3", "-m", "hub_mirror", "check")
    return str(kubectl("exec", pod, f"--namespace={namespace}", "--container=serve", "--", *command))


def test_a_published_model_comes_back(
    context: SiteContext, site: Site, server: Host, kubectl: Kubectl, volume: Path, ada: Member,
    run: Callable[..., Any], tmp_path: Path,
) -> None:  # fmt: skip
    """Deleted by a member after the backup; restored in place, while the mirror runs."""
    token = str(ada.run(TOKEN)["token"])
    name = f"{site.platform.tenants[0].name}/{new_name('model')}"
    names = {"OPEN": name, "CLOSED": f"{name}-closed"}
    (tmp_path / "model").mkdir()
    sizes = {"config.json": 2, "w.bin": WEIGHTS}
    for file, size in sizes.items():
        (tmp_path / "model" / file).write_bytes(os.urandom(size))
    former = ""
    try:
        assert run(PUBLISH, token, FOLDER=str(tmp_path / "model"), **names) == sorted(sizes)
        back_up(context)
        run(DELETE, token, **names)
        assert run(LOAD, token, NAME=name) == "RepositoryNotFoundError"
        former = restore(context, f"database/{DATABASE.name}", DATABASE.name, "--overwrite").split()[-1]
        restore(context, f"export/{volume.name}", str(volume), "--overwrite")
        eventually(
            lambda: all(run(LOAD, token, NAME=name) == sizes for name in names.values()),
            SECONDS,
            "both are there again",
        )
        assert check(kubectl, site).startswith("0 files are missing")
        eventually(lambda: healthy(context), SECONDS, "the services use the restored database")
    finally:
        run(DELETE, token, **names)
        if former:
            psql(server, "postgres", f"drop database {former} with (force)")
    assert run(LOAD, token, NAME=name) == "RepositoryNotFoundError"
