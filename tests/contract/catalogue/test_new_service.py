"""`strata new-service`: what it writes works, and nothing else changes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from strata.errors import UserError
from strata.scaffold.service import WORDS, new_service
from strata.site.paths import REPOSITORY

NAME, KEY = "greeting-desk", "greeting_desk"
LEFT_OUT = (".git", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache", "__pycache__", "shared")


class Copy:
    """A copy of the repository, whose own code runs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        sources = ":".join(str(root / part / "src") for part in (".", "lab", "bench"))
        self.environment = {**os.environ, "PYTHONPATH": sources}
        self.environment["STRATA_STATE_DIR"] = str(root.parent / "state")

    def run(self, *command: str, check: bool = True) -> str:
        """The output of a command in it."""
        done = subprocess.run(command, cwd=self.root, env=self.environment, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def strata(self, *arguments: str) -> str:
        """The output of a command of Strata."""
        return self.run(sys.executable, "-c", "from strata.cli.main import main; main()", *arguments)

    def changed(self) -> set[str]:
        """Folders that git sees a change in."""
        self.run("git", "add", "--all")
        files = self.run("git", "diff", "--cached", "--name-only").split()
        return {"/".join(file.split("/")[:2]) for file in files}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """With a new service."""
    root = tmp_path_factory.mktemp("new") / "strata"
    shutil.copytree(REPOSITORY, root, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    checkout = Copy(root)
    checkout.run("git", "init", "--quiet")
    checkout.run("git", "add", "--all")
    checkout.run(
        "git", "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "--quiet", "--message=before"
    )
    assert NAME in checkout.strata("new-service", NAME)
    return checkout


def test_only_its_folders_and_the_generated_reference_change(copy: Copy) -> None:
    assert copy.changed() == {f"services/{NAME}", f"helm/{NAME}", "docs/reference"}
    folders = (copy.root / "services" / NAME, copy.root / "helm" / NAME)
    files = [file for folder in folders for file in folder.rglob("*") if "__pycache__" not in file.parts]
    texts = {file: f"{file.name} {file.read_text() if file.is_file() else ''}" for file in files}
    assert not [file for file, text in texts.items() if any(word in text for word in WORDS)]
    assert f"| {NAME} | `{KEY}` |" in (copy.root / "docs/reference/services.md").read_text()


def test_it_is_validated_planned_and_explained(copy: Copy) -> None:
    file = copy.root / "inventories" / "lab" / "site.yaml"
    before = file.read_text()
    content = yaml.safe_load(before)
    content["platform"]["services"][KEY] = {"replicas": 2}
    try:
        file.write_text(yaml.safe_dump(content))
        assert "is valid" in copy.strata("validate", "lab")
        releases = json.loads(copy.strata("plan", "lab", "--json", "--offline"))["platform"]["releases"]
        (release,) = (release for release in releases if release["name"] == NAME)
        assert release["address"] == f"https://{NAME}.lab.strata.test/"
        assert release["namespace"] == "strata-system"
        assert "Number of pods" in copy.strata("explain", "lab", f"platform.services.{KEY}.replicas")
    finally:
        file.write_text(before)


def test_its_own_tests_pass(copy: Copy) -> None:
    said = copy.run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"services/{NAME}/tests")
    assert "10 passed" in said


def test_its_release_meets_what_every_release_must(copy: Copy) -> None:
    chosen = ("tests/contract/catalogue/test_charts.py", "-k", f"{NAME} and not api_server")
    assert "11 passed" in copy.run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen)


def test_its_lock_pins_what_the_package_s_does(copy: Copy) -> None:
    """As uv judges it, without an index; an image gets what the lock pins."""
    uv = ("uv", "lock", "--check", "--offline", f"--cache-dir={copy.root.parent / 'empty'}")
    copy.run(*uv, f"--project=services/{NAME}")
    pinned = {name: locked(copy.root / "services" / name) for name in (NAME, "http")}
    assert pinned[NAME] - pinned["http"] == {(NAME, "0.1.0")}
    assert not {name for name, _ in pinned[NAME]} & {"mypy", "ruff", "schemathesis", "pytest"}


def locked(project: Path) -> set[tuple[str, str]]:
    return {
        (package["name"], package["version"]) for package in tomllib.loads((project / "uv.lock").read_text())["package"]
    }


def test_its_code_and_chart_are_clean(copy: Copy) -> None:
    folder = f"services/{NAME}"
    copy.run(sys.executable, "-m", "ruff", "check", "--no-cache", folder)
    copy.run(sys.executable, "-m", "ruff", "format", "--no-cache", "--check", folder)
    package = copy.root / ".mypy_cache" / "services" / "strata_services"
    package.mkdir(parents=True)
    (package / KEY).symlink_to(copy.root / folder)
    modules = [str(file) for part in (".", "checks", "tests") for file in (package / KEY / part).glob("*.py")]
    copy.run(sys.executable, "-m", "mypy", "--explicit-package-bases", *modules)
    values = {
        "image": {"repository": "r/s", "digest": "sha256:" + "0" * 64},
        "database": {"host": "10.0.0.1", "existingSecret": {"name": "s"}, "ca": "-----BEGIN CERTIFICATE-----\n"},
        "issuer": {"url": "https://login.example.org"},
        "ingress": {"host": "a.example.org"},
    }
    (copy.root.parent / "values.yaml").write_text(yaml.safe_dump(values))
    helm = str(Path(sys.executable).with_name("helm"))
    copy.run(helm, "lint", "--strict", f"helm/{NAME}", "--values", str(copy.root.parent / "values.yaml"))


@pytest.mark.parametrize("name", ["", "Upper", "a_b", "-a", "a-", "a--b", "9a", "a" * 33, "external-issuer"])
def test_bad_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError):
        new_service(name, tmp_path)
    assert not list(tmp_path.iterdir())
