"""`strata new-role` in a copy of the repository: only the new folder and what is generated differ."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.site.paths import REPOSITORY

ROLE = "mail_relay"
GENERATED = {"docs/reference/site.md", "docs/reference/site.schema.json"}
PROGRAMS = Path(sys.executable).parent
# one after the other, beside the tests of the running site
pytestmark = pytest.mark.xdist_group("molecule")


class Copy:
    """A copy of the repository under git.

    Args:
        root: where it is.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = os.environ | {
            "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
            "PYTHONPATH": f"{root}/src:{root}/lab/src",
            "STRATA_STATE_DIR": str(root.parent / "state"),
            "NO_COLOR": "1",
            "COLUMNS": "300",
        }

    def run(self, *command: str, directory: str = ".", **environment: str) -> str:
        """Output of a program in the copy."""
        done = subprocess.run(
            command,
            cwd=self.root / directory,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout[-6000:]}"
        return done.stdout

    def strata(self, *arguments: str) -> str:
        """Output of the copy's own strata."""
        return self.run(sys.executable, "-m", "strata.cli.main", *arguments)

    def changed(self) -> set[str]:
        """What git reports, folders that are new as such."""
        return {line[3:] for line in self.run("git", "status", "--porcelain").splitlines()}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    root = tmp_path_factory.mktemp("new-role") / "strata"
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, names.split("\0")):
        if (REPOSITORY / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, root / name)
    made = Copy(root)
    for command in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "copy")):
        made.run("git", "-c", "user.name=test", "-c", "user.email=test@example.org", *command)
    assert f"ansible/roles/{ROLE}" in made.strata("new-role", ROLE)
    made.run(sys.executable, "-m", "strata.site_file.generate")
    yield made
    shutil.rmtree(root / "ansible" / "roles" / ROLE)
    made.run(sys.executable, "-m", "strata.site_file.generate")
    assert made.changed() == set(), "the role left something behind"


def test_only_its_folder_and_what_is_generated_change(copy: Copy) -> None:
    assert copy.changed() == {f"ansible/roles/{ROLE}/", *GENERATED}


def test_its_files_pass_every_check_of_the_repository(copy: Copy) -> None:
    folder = f"ansible/roles/{ROLE}"
    copy.run("ansible-lint", "--offline", "--strict", "--nocolor", folder)
    copy.run("ruff", "check", folder)
    copy.run("ruff", "format", "--check", folder)
    copy.run("yamllint", "--strict", folder)
    links = copy.root / ".mypy_cache" / "services"  # as scripts/test makes them
    links.mkdir(parents=True)
    (links / "strata_roles").symlink_to(copy.root / "ansible" / "roles")
    modules = sorted((links / "strata_roles" / ROLE).rglob("*.py"))
    copy.run("mypy", "--explicit-package-bases", *(str(file) for file in modules if "molecule" not in file.parts))
    copy.run("pytest", "-q", "-p", "no:xdist", "tests/unit/test_roles.py", f"{folder}/tests")


def test_a_site_may_have_it(copy: Copy, tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    lab = (copy.root / "inventories" / "lab" / "site.yaml").read_text()
    (tmp_path / "catalogue.json").write_text("[]")
    assert "roles: [kube_node]" in lab
    with_role = lab.replace("roles: [kube_node]", f"roles: [kube_node, {ROLE}]")
    site.write_text(with_role.replace("\nhosts:\n", f"\nhosts:\n  {ROLE}: {{greeting: Hello from}}\n"))
    assert "is valid" in copy.strata("validate", str(site))
    assert f"kube_node, {ROLE}" in copy.strata("plan", str(site))
    assert "Greets over HTTP" in copy.strata("explain", str(site), f"cloud.instances.worker-1.roles.{ROLE}")
    assert "Hello from" in copy.strata("explain", str(site), f"hosts.{ROLE}.greeting")
    tasks = copy.run("ansible-playbook", "-i", str(site), "--syntax-check", "ansible/playbooks/hosts.yml")
    assert "playbook: ansible/playbooks/hosts.yml" in tasks


@pytest.mark.nightly
def test_molecule_runs_it(copy: Copy) -> None:
    if os.geteuid() != 0:
        pytest.skip("molecule's containers boot systemd, which podman allows to root only")
    scenarios = "roles/*/molecule/*/molecule.yml"
    copy.run("molecule", "test", "--scenario-name", ROLE, directory="ansible", MOLECULE_GLOB=scenarios)
