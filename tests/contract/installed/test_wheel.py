"""`strata` from a wheel, in an environment of its own: what an operator has without a clone of the repository."""

from __future__ import annotations

import os
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from strata.site.paths import REPOSITORY, cache_directory

from ..adopt.conftest import SITE, Place
from ..adopt.small_cloud import SmallCloud, serve

ROOT = "strata_repository/"
UV = f"{cache_directory() / 'uv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
"""PATH with uv, which scripts/bootstrap.sh puts there where the machine has none."""


def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in the repository, which must succeed."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"PATH": UV} | variables
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


@dataclass(frozen=True)
class Installed:
    """The wheel, and what was installed from it.

    Args:
        wheel: the file.
        directory: for tools of uv, their programs, and an operator's files.
    """

    wheel: Path
    directory: Path

    @property
    def program(self) -> Path:
        """The command."""
        return self.directory / "bin" / "strata"

    def install(self) -> None:
        """Has uv install it, again if it is installed, with the locked versions of the packages."""
        constraints = self.directory / "constraints.txt"
        run("uv", "export", "--quiet", "--frozen", "--no-dev", "--no-emit-project", "--no-hashes", "-o", constraints)
        run(
            *("uv", "tool", "install", "--quiet", "--force", "--reinstall-package", "strata"),
            *("--constraints", constraints, self.wheel),
            UV_TOOL_DIR=str(self.directory / "tools"),
            UV_TOOL_BIN_DIR=str(self.program.parent),
        )

    def strata(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Runs the command in the operator's directory, with nothing of this repository around it."""
        variables = {
            "STRATA_STATE_DIR": str(self.directory / "state"),
            "OS_CLIENT_CONFIG_FILE": str(self.directory / "clouds.yaml"),
            "COLUMNS": "200",
        }
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("STRATA_", "PYTHON"))} | variables
        return subprocess.run(
            [self.program, *arguments],
            cwd=self.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def answer(self, *arguments: str | Path) -> str:
        """What a command prints, which must succeed."""
        done = self.strata(*arguments)
        assert done.returncode == 0, done.stderr or done.stdout
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    directory = tmp_path_factory.mktemp("operator")
    left = REPOSITORY / "pulumi" / "cloud" / f"Pulumi.wheel-contract-{os.getpid()}.yaml"
    left.write_text("encryptionsalt: of a stack\n")  # as every `up` leaves one
    try:
        run("uv", "build", "--quiet", "--wheel", "--out-dir", directory)
    finally:
        left.unlink()
    (wheel,) = directory.glob("*.whl")
    installation = Installed(wheel, directory)
    installation.install()
    return installation


def test_the_wheel_has_what_a_site_needs_and_nothing_of_the_lab(installed: Installed) -> None:
    names = [name.removeprefix(ROOT) for name in zipfile.ZipFile(installed.wheel).namelist()]
    tracked = run("git", "ls-files", "ansible", "helm", "pulumi", "services", "tools").stdout.splitlines()
    left_out = ("/molecule/", "/tests/", "benchmarks.py", "conftest.py", "tools/wheel/")
    assert set(names) >= {name for name in tracked if not any(part in name for part in left_out)}
    stray = ("lab/", "bench/", "tests/", "inventories/lab", "src/strata_", "ansible/molecule/")
    assert [name for name in names if name.startswith(stray)] == []
    assert [name for name in names if "/tests/" in name or "wheel-contract" in name or "/.venv/" in name] == []


def test_a_site_file_is_written_checked_and_planned(installed: Installed) -> None:
    assert "up " in installed.answer("--help")
    written = installed.answer("new", "my-site", "--like", "tacc")
    file = installed.directory / "inventories" / "my-site" / "site.yaml"
    assert file.is_file(), written
    schema = file.read_text().splitlines()[0].partition("$schema=")[2]
    assert (file.parent / schema).is_file()
    assert "is valid" in installed.answer("validate", "my-site")
    planned = installed.answer("plan", "my-site", "--offline")
    assert "cic-gpu03" in planned
    assert "helm/ml-hub" in planned
    assert "is valid" in installed.answer("validate", "nautilus"), "an example of the package"
    wrong = installed.directory / "wrong.yaml"
    wrong.write_text(file.read_text().replace("vcpus: 96", "vcpus: many"))
    refused = installed.strata("validate", wrong)
    assert refused.returncode == 2
    place, _, anchor = refused.stderr.rpartition("see:")[2].strip().partition("#")
    assert f"### {anchor.replace('-', ' ')}" in Path(place).read_text().lower()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("new-role", "mail_relay"), "`strata new-role mail_relay` writes into the repository"),
        (("new-service", "greeter"), "`strata new-service greeter` writes into the repository"),
        (("plan", REPOSITORY / "inventories" / "lab" / "site.yaml"), "is a lab, and the installed Strata has none"),
    ],
)
def test_what_needs_a_clone_is_refused(installed: Installed, arguments: tuple[str, ...], reason: str) -> None:
    refused = installed.strata(*arguments)
    assert refused.returncode == 2
    assert reason in refused.stderr
    assert "clone of the repository" in refused.stderr


@pytest.mark.nightly
def test_a_cloud_comes_up_and_the_next_version_changes_nothing(installed: Installed) -> None:
    """Pulumi runs the package's program; its settings beside the program are gone with the installation."""
    with serve(SmallCloud("campus")) as cloud:
        place = Place(installed.directory, cloud)
        place.write_files()
        first = yaml.safe_load(installed.answer("up", place.file, "--layer", "cloud", "--json"))
        assert first["changed"] > 0
        settings = f"pulumi/cloud/Pulumi.{SITE}.yaml"
        assert list((installed.directory / "tools").rglob(settings))
        installed.install()
        assert not list((installed.directory / "tools").rglob(settings))
        again = yaml.safe_load(installed.answer("up", place.file, "--layer", "cloud", "--thorough", "--json"))
        assert again["changed"] == 0
        assert not (REPOSITORY / settings).exists()
