"""A site like campus in a small OpenStack, deployed there once by the real engine and provider."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site_file.inventories import find_site
from strata.stacks.events import urn_name
from strata.stacks.pulumi import Run, stack_settings_file

from .small_cloud import SmallCloud, serve

SITE = "adopt-contract"
"""Not campus: pulumi stores a setting of each stack beside the program."""
STRATA = str(Path(sys.executable).parent / "strata")


@dataclass(frozen=True)
class Place:
    """A site and its cloud.

    Args:
        directory: of its state, clouds.yaml and site file.
        cloud: that it is in.
    """

    directory: Path
    cloud: SmallCloud

    @property
    def file(self) -> Path:
        """The site file."""
        return self.directory / "site.yaml"

    def write_files(self) -> None:
        """Writes the site file and clouds.yaml."""
        content = yaml.safe_load(find_site("campus").read_text()) | {"name": SITE}
        self.file.write_text(yaml.safe_dump(content))
        auth = {
            "auth_url": f"{self.cloud.url}/v3",
            "username": "user",
            "password": "password",
            "project_name": "campus",
        }
        auth |= dict.fromkeys(("user_domain_name", "project_domain_name"), "Default")
        entry = {"region_name": "RegionOne", "auth_type": "v3password", "auth": auth}
        (self.directory / "clouds.yaml").write_text(yaml.safe_dump({"clouds": {"campus": entry}}))

    def strata(self, command: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Runs a command on the site."""
        environment = os.environ | {
            "STRATA_STATE_DIR": str(self.directory / "state"),
            "OS_CLIENT_CONFIG_FILE": str(self.directory / "clouds.yaml"),
        }
        return subprocess.run(
            [STRATA, command, str(self.file), *options],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )

    def refresh(self) -> set[tuple[str, str]]:
        """Operation and name of each resource that a refresh finds changed; the state must stay as it is."""
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setenv("STRATA_STATE_DIR", str(self.directory / "state"))
            monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(self.directory / "clouds.yaml"))
            context = SiteContext.load(self.file)
            run = Run("cloud", context.site, context.paths, Silent(), context.site_file)
            before = run.state_file.read_bytes()
            differences = {(step["op"], urn_name(step["urn"])) for step in run.refresh_differences()}
            assert run.state_file.read_bytes() == before
            assert not run.locked()
            return differences

    def json(self, command: str, *options: str) -> dict[str, Any]:
        """Runs a command that must succeed; returns what it prints."""
        done = self.strata(command, *options, "--json")
        assert done.returncode == 0, done.stderr or done.stdout
        output: dict[str, Any] = json.loads(done.stdout)
        return output


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SmallCloud, Path]]:
    """The cloud after `up`, and the files of the state directory that an operator still has: the SSH key."""
    directory = tmp_path_factory.mktemp("deployed")
    try:
        with serve(SmallCloud("campus")) as cloud:
            place = Place(directory, cloud)
            place.write_files()
            place.json("up", "--layer", "cloud")
        yield cloud, directory / "state" / SITE
    finally:
        stack_settings_file("cloud", SITE).unlink(missing_ok=True)


@pytest.fixture
def lost(deployed: tuple[SmallCloud, Path], tmp_path: Path) -> Iterator[Place]:
    """The deployed site without its Pulumi state."""
    template, state = deployed
    cloud = SmallCloud("campus")
    cloud.take_over(template)
    kept = tmp_path / "state" / SITE
    kept.mkdir(parents=True, mode=0o700)
    kept.parent.chmod(0o700)
    for name in ("ssh_key", "ssh_key.pub"):
        (kept / name).write_bytes((state / name).read_bytes())
        (kept / name).chmod(0o600)
    with ExitStack() as stack:
        place = Place(tmp_path, stack.enter_context(serve(cloud)))
        place.write_files()
        yield place
