"""Kolla-Ansible's commands: what runs, in which order, and what is resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.engine.ansible import PlaybookResult
from strata.errors import UserError
from strata.kolla import commands
from strata.kolla.commands import COMMANDS, Record, action, command_line, is_done, run_command
from strata.kolla.configuration import configuration_directory
from strata.kolla.files import difference, public_files
from strata.models import find_site
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.toolchain.python_environment import Environment


@pytest.fixture
def tacc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteContext:
    """The site with a written configuration."""
    monkeypatch.setenv("STRATA_STATE_DIR", str(tmp_path))
    environment = Environment("22.2.0", tmp_path / "environment")
    monkeypatch.setattr(commands, "ensure_environment", lambda *_: environment)
    monkeypatch.setattr(commands, "ensure_collections", lambda *_: None)
    found = SiteContext.load(find_site("tacc"))
    found.paths.create()
    for name, text in public_files(found.site).items():
        file = configuration_directory(found.paths) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return found


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
    assert tacc.provider.planned_changes(tacc) == [f"Kolla-Ansible deploys OpenStack {tacc.provider.location}"]
