"""Kolla-Ansible's commands: what runs, in which order, and what is resumed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from strata.engine.ansible import PlaybookResult
from strata.engine.changes.disruption import Approval
from strata.engine.up_steps import up_steps
from strata.errors import UserError
from strata.installers.kolla import commands, steps
from strata.installers.kolla.commands import COMMANDS, Record, action, command_line, is_done, run_command
from strata.installers.kolla.configuration import configuration_directory
from strata.installers.kolla.files import difference, public_files
from strata.installers.kolla.lifecycle import KollaLifecycle
from strata.layers import Layer
from strata.progress import Progress, Silent
from strata.site.context import SiteContext
from strata.site_file.inventories import find_site
from strata.toolchain.python_environment import Environment


@pytest.fixture
def tacc(state_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteContext:
    """The site with a written configuration."""
    environment = Environment("22.2.0", tmp_path / "environment")
    monkeypatch.setattr(commands, "ensure_environment", lambda *_: environment)
    monkeypatch.setattr(commands, "ensure_collections", lambda *_: None)
    loaded = SiteContext.load(find_site("tacc"))
    loaded.paths.create()
    for name, text in public_files(loaded.site).items():
        file = configuration_directory(loaded.paths) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return loaded


def test_a_failed_command_is_resumed_and_a_finished_one_is_not(
    tacc: SiteContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    failing = {"deploy"}

    def follow(command: list[str], *_: object, **__: object) -> tuple[PlaybookResult, int, list[str]]:
        ran.append(command[1])
        return PlaybookResult(), int(command[1] in failing), ["ctl01: no space left"]

    monkeypatch.setattr(commands, "follow_ansible", follow)

    def run_all() -> None:
        for command in COMMANDS:
            if not is_done(command, tacc, "22.2.0"):
                run_command(command, tacc, Silent())

    with pytest.raises(UserError, match="kolla-ansible deploy: exit status 1: ctl01: no space left"):
        run_all()
    failing.clear()
    run_all()
    assert ran == ["bootstrap-servers", "prechecks", "pull", "deploy", "deploy", "post-deploy"]
    run_all()
    assert len(ran) == 6
    # an override is nothing to bootstrap-servers, and no second deployment
    (configuration_directory(tacc.paths) / "config" / "nova.conf").write_text("[DEFAULT]\n")
    run_all()
    assert ran[6:] == ["prechecks", "pull", "reconfigure", "post-deploy"]
    assert action("deploy", Record.of(tacc.paths), "23.0.0") == "upgrade"


def test_the_command_line_has_no_secret(tacc: SiteContext, tmp_path: Path) -> None:
    directory = configuration_directory(tacc.paths)
    line = command_line("deploy", tacc.paths, Environment("22.2.0", tmp_path))
    expected = ["deploy", "--inventory", str(directory / "inventory"), "--configdir", str(directory)]
    assert line == [str(tmp_path / "bin" / "kolla-ansible"), *expected]


def test_the_plan_shows_changed_lines(tacc: SiteContext) -> None:
    files = public_files(tacc.site)
    assert difference(tacc.site, files) == []
    files["globals.yml"] = files["globals.yml"].replace("engine: podman", "engine: docker")
    expected = ["globals.yml: -kolla_container_engine: docker", "globals.yml: +kolla_container_engine: podman"]
    assert difference(tacc.site, files) == expected
    assert KollaLifecycle(tacc).planned_changes() == [f"Kolla-Ansible deploys OpenStack {tacc.provider.location}"]


@pytest.mark.parametrize(("cards", "asked"), [(6, "true"), (7, "false")])
def test_placement_is_not_asked_for_more_cards_than_it_finds(tacc: SiteContext, cards: int, asked: str) -> None:
    assert tacc.site.cloud is not None
    flavor = tacc.site.cloud.flavors[-1].model_copy(update={"accelerators": {"v100": cards}})
    cloud = tacc.site.cloud.model_copy(update={"flavors": (flavor,)})
    files = public_files(tacc.site.model_copy(update={"cloud": cloud}))
    assert f"\npci_in_placement = {asked}\n" in files["config/nova.conf"]


PLAYBOOK = """
- name: Apply role nova-cell
  hosts: all
  gather_facts: false
  tasks:
    - name: Running Nova cell bootstrap container
      ansible.builtin.assert: {that: repaired is exists, fail_msg: "Container exited with non-zero return code 1"}
"""


def test_a_play_that_fails_is_named_with_task_host_and_log_and_the_same_command_resumes(
    tacc: SiteContext, tmp_path: Path
) -> None:
    """The real Ansible under the command's name, with one play in the place of Kolla-Ansible's."""
    programs = tmp_path / "environment" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / "site.yml").write_text(PLAYBOOK)
    ansible = Path(sys.executable).parent / "ansible-playbook"
    repaired = tmp_path / "repaired"
    program = programs / "kolla-ansible"
    program.write_text(
        f"#!/bin/sh\n[ $1 = deploy ] || exit 0\nexec {ansible} --inventory ctl01, --connection local "
        f"--extra-vars repaired={repaired} {tmp_path}/site.yml\n"
    )
    program.chmod(0o755)
    for command in COMMANDS[:3]:
        run_command(command, tacc, Silent())
    with pytest.raises(UserError) as raised:
        run_command("deploy", tacc, Silent())
    error = raised.value
    failed = "kolla-ansible deploy: ctl01: Apply role nova-cell: Running Nova cell bootstrap container: Container"
    assert error.message.startswith(failed), error.message
    log = tacc.paths.logs / "kolla-deploy.log"
    assert f"see {log}, fix it, and run the same command again: `up` resumes with deploy" in str(error.fix)
    assert "FAILED ctl01" in log.read_text()
    repaired.touch()
    assert [is_done(command, tacc, "22.2.0") for command in COMMANDS] == [True, True, True, False, False]
    run_command("deploy", tacc, Silent())
    assert is_done("deploy", tacc, "22.2.0")


def test_a_hypervisor_is_emptied_only_if_the_operator_allowed_it(
    tacc: SiteContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed: list[bool] = []

    def run(_context: SiteContext, _progress: Progress, approved: Callable[[str], bool]) -> PlaybookResult:
        allowed.append(approved("gpu01"))
        return PlaybookResult()

    monkeypatch.setattr(steps, "run_passthrough", run)
    for approval in (None, Approval(frozenset({"cic-gpu01"})), Approval(everything=True)):
        planned = up_steps(tacc, KollaLifecycle(tacc), [Layer.CLOUD], approval=approval)
        next(step for step in planned if step.name == "PCI passthrough").run(Silent())
    assert allowed == [False, False, True]
