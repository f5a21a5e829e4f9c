"""A site's provider and its life cycle: each chosen in one place, and nothing else asks which it is."""

from __future__ import annotations

import ast
import os
import platform
import re
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from strata.cli.lifecycle_choice import lifecycle_of
from strata.engine.existing_cloud.lifecycle import ExistingCloudLifecycle
from strata.errors import UserError
from strata.installers.kolla.lifecycle import KollaLifecycle
from strata.installers.kolla.provider import KollaProvider
from strata.lifecycle import CloudLifecycle
from strata.progress import Silent
from strata.provider import Provider, provider_of
from strata.provider import deployment_host as deployment_host_module
from strata.provider.existing import ExistingCloudProvider
from strata.site.context import SiteContext
from strata.site.outputs import ImageOutputs
from strata.site.paths import REPOSITORY, SitePaths
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site
from strata_lab.lifecycle import LabLifecycle
from strata_lab.provider import LabProvider

CHOICES = {"strata/cli/lifecycle_choice.py", "strata/provider/choice.py"}
MAY_ASK = CHOICES | {"strata/models/cloud.py", "strata/models/site.py"}
"""The choices, and the validation of the key itself."""
SOURCES = REPOSITORY / "src"
Usage = namedtuple("Usage", "total used free")
CLOUDS = "clouds:\n  infn-cloud:\n    auth: {auth_url: https://keystone.example/v3}\n"


def test_nothing_else_asks_for_the_deployment() -> None:
    comparing = re.compile(r"deployment (==|!=|in|not in) ")
    asking = [
        f
        for root in (SOURCES, REPOSITORY / "lab" / "src")
        for f in root.rglob("*.py")
        if comparing.search(f.read_text())
    ]
    assert {str(f.relative_to(SOURCES)) for f in asking if "states.items" not in f.read_text()} == MAY_ASK


def test_the_product_imports_the_lab_at_the_choices_only() -> None:
    importing = set()
    for file in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.partition(".")[0] == "strata_lab" for name in names):
                importing.add(str(file.relative_to(SOURCES)))
    assert importing == CHOICES


def test_a_real_site_never_loads_the_lab() -> None:
    code = (
        "import sys; from strata.site_file.inventories import find_site; from strata.site.context import SiteContext\n"
        "from strata.engine.up_steps import up_steps; from strata.plan import plan; from strata.layers import Layer\n"
        "from strata.cli.lifecycle_choice import lifecycle_of\n"
        "c = SiteContext.load(find_site('tacc')); plan(c.site); up_steps(c, lifecycle_of(c), [Layer.CLOUD])\n"
        "print([m for m in sys.modules if m.startswith('strata_lab')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "facts", "lifecycle"),
    [
        ("lab", LabProvider, LabLifecycle),
        ("cnaf", ExistingCloudProvider, ExistingCloudLifecycle),
        ("tacc", KollaProvider, KollaLifecycle),
        ("nautilus", Provider, CloudLifecycle),
    ],
)
def test_the_choices(name: str, facts: type, lifecycle: type) -> None:
    context = SiteContext.load(find_site(name))
    assert type(context.provider) is facts
    assert type(lifecycle_of(context)) is lifecycle


def test_hosts_that_others_run_are_not_stopped() -> None:
    with pytest.raises(UserError, match="tacc is not a lab site"):
        lifecycle_of(SiteContext.load(find_site("tacc"))).stop(Silent())


def test_a_real_site_names_what_it_needs_before_anything_starts(
    state_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    lifecycle = lifecycle_of(SiteContext.load(find_site("cnaf")))
    with pytest.raises(UserError) as refused:
        lifecycle.check()
    for program in ("ssh", "podman", "runc", "skopeo", "mmdebstrap", "uv"):
        assert f"{program} is not" in refused.value.message
    assert "does not name the cloud infn-cloud" in refused.value.message
    # with the images pushed and the tools of every site there is nothing to build them with
    ImageOutputs(images={}).save(SitePaths("cnaf").create())
    (tmp_path / "clouds.yaml").write_text(CLOUDS)
    monkeypatch.setattr(shutil, "which", lambda name: name if name.startswith("ssh") else None)
    lifecycle.check()


@pytest.mark.parametrize("name", ["tacc", "nautilus"])
def test_kubespray_and_kolla_ansible_are_installed_by_uv(
    name: str, deployment_host: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the images have been pushed."""
    ImageOutputs(images={}).save(SitePaths(name).create())
    monkeypatch.setattr(shutil, "which", lambda program: None if program == "uv" else program)
    assert problems(name) == ["uv is not installed; it installs Python packages"]


@pytest.fixture
def deployment_host(state_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Debian host with every command, on which nothing has been built."""
    monkeypatch.setenv("STRATA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 10 << 30))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(deployment_host_module, "_read", lambda _: "CapEff:\t000001ffffffffff\n")
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"ID": "debian", "PRETTY_NAME": "Debian 12"})


def problems(name: str = "metal") -> list[str]:
    reported = provider_of(load_site(find_site(name))).problems()
    assert all(problem.fix for problem in reported)
    return [problem.message for problem in reported]


@pytest.mark.usefixtures("deployment_host")
def test_a_host_that_can_build_images_has_no_problem() -> None:
    assert problems() == []


@pytest.mark.usefixtures("deployment_host")
def test_images_are_built_as_root_which_is_known_before_anything_is_created(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (message,) = problems()
    assert message.startswith(
        "the user is not root (uid 1000), as which the root filesystems of the pod images are built"
    )
    ImageOutputs(images={}).save(SitePaths("metal").create())
    assert problems() == [], "the images have been pushed"


@pytest.mark.usefixtures("deployment_host")
def test_root_of_a_container_may_build_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment_host_module, "_read", lambda _: "CapEff:\t00000000a80425fb\n")
    assert problems() == ["root has no CAP_SYS_ADMIN here, and builds the root filesystems of the pod images"]


@pytest.mark.usefixtures("deployment_host")
def test_images_are_built_from_the_hosts_debian_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"ID": "ubuntu", "PRETTY_NAME": "Ubuntu 24.04"})
    assert problems() == ["this is Ubuntu 24.04; pod images are built from the Debian archive that apt uses here"]


@pytest.mark.usefixtures("deployment_host")
def test_free_space_for_a_first_run_and_a_later_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 9 << 30))
    message = problems()[0]
    assert message.startswith("9.0 GiB free for ")
    assert message.endswith(", 10 GiB are needed")
    (tmp_path / "cache" / "images").mkdir(parents=True)
    (tmp_path / "cache" / "images" / "pod-base-12-abc.tar").touch()
    assert problems() == []
    ImageOutputs(images={}).save(SitePaths("metal").create())
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 1 << 30))
    assert problems() == [f"1.0 GiB free for {tmp_path / 'cache'}, 2 GiB are needed"]
