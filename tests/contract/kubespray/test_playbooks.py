"""The pinned Kubespray accepts the inventory and variables made from site.yaml."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from strata.installers.kubespray.commands import (
    INSTALL,
    REMOVE,
    RESET,
    SCALE,
    UPGRADE,
    Run,
    command_environment,
    command_line,
)
from strata.installers.kubespray.configuration import write_configuration
from strata.installers.kubespray.source import archive_name, ensure_source, mirrored_archive, pinned, source_directory
from strata.installers.kubespray.variables import FILE, text
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site_file.inventories import find_site
from strata.toolchain.python_environment import COMPLETE, Environment, ensure_environment

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("kubespray")]


@pytest.fixture(scope="session")
def source() -> Path:
    """The playbooks, from the mirror directory or an earlier run."""
    if mirrored_archive() is None and not (source_directory() / COMPLETE).exists():
        pytest.skip(f"no Kubespray: put {archive_name()}.tar.gz into $STRATA_MIRROR/kubespray/{pinned()[0]}")
    return ensure_source(Silent())


@pytest.fixture(scope="session")
def kubespray(source: Path) -> Environment:
    """Its own Ansible; only where the playbooks are available."""
    return ensure_environment("kubespray", Silent())


@pytest.fixture
def nautilus(state_directory: Path) -> SiteContext:
    """A site of machines, with its written configuration."""
    context = SiteContext.load(find_site("nautilus"))
    write_configuration(context)
    return context


def ansible(
    run: Run, context: SiteContext, source: Path, kubespray: Environment, *arguments: str
) -> subprocess.CompletedProcess[str]:
    environment = command_environment(source, context.paths, kubespray)
    command = [*command_line(run, source, context.paths, kubespray), *arguments]
    done = subprocess.run(command, env=environment, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done


def test_the_requirements_are_those_of_the_source(source: Path) -> None:
    required = {line for line in (source / "requirements.txt").read_text().split() if "==" in line}
    ours = (FILE.parent / "requirements.in").read_text().split()
    assert required == {word for word in ours if "==" in word}


def test_the_names_are_not_stale(source: Path) -> None:
    """`python -m strata.installers.kubespray.variables` writes the file again."""
    assert FILE.read_text() == text(source)


@pytest.mark.parametrize("playbook", [INSTALL, SCALE, REMOVE, UPGRADE, RESET])
def test_the_playbooks_load_with_the_inventory(
    playbook: str, nautilus: SiteContext, source: Path, kubespray: Environment
) -> None:
    output = ansible(Run(playbook, ""), nautilus, source, kubespray, "--list-tasks").stdout
    assert "Inventory setup and validation" in output
    assert output.count("\n      ") > 50


def test_kubespray_validates_the_variables(nautilus: SiteContext, source: Path, kubespray: Environment) -> None:
    """Its own assertions on the inventory, which need no host."""
    local = json.dumps({"ansible_connection": "local", "ansible_become": False})
    completed = ansible(Run("playbooks/boilerplate", ""), nautilus, source, kubespray, "--extra-vars", local)
    stats = next(json.loads(line)["stats"] for line in completed.stdout.splitlines() if "v2_playbook_on_stats" in line)
    assert stats["calit2-control-1"]["ok"] > 12
    assert sum(host["failures"] for host in stats.values()) == 0
