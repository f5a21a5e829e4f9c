"""`strata backup` and `strata restore`: what reaches the hosts, and what is reported of their answers."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from strata.access import backups
from strata.errors import UserError
from strata.observe.hosts import parse_answer
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site.host_list import Host
from strata.site.paths import REPOSITORY

STORAGE, DATABASE = (
    Host("storage", "10.0.0.1", ("backup", "nfs_server")),
    Host("sql", "10.0.0.2", ("backup", "postgresql")),
)


class Hosts:
    """Answers in place of SSH.

    Args:
        answers: address to exit status, output and errors.
    """

    def __init__(self, answers: dict[str, tuple[int, str, str]]) -> None:
        self.answers = answers
        self.commands: list[tuple[str, str]] = []

    def run(self, _: SiteContext, address: str, command: str, **__: object) -> subprocess.CompletedProcess[str]:
        self.commands.append((address, command))
        return subprocess.CompletedProcess(command, *self.answers[address])


@pytest.fixture
def context(state_directory: Path, monkeypatch: pytest.MonkeyPatch) -> SiteContext:
    monkeypatch.setattr(backups, "hosts_with", lambda *_: (STORAGE, DATABASE))
    return SiteContext.load(REPOSITORY / "inventories" / "lab" / "site.yaml")


def answering(monkeypatch: pytest.MonkeyPatch, **answers: tuple[int, str, str]) -> Hosts:
    hosts = Hosts({host.address: answers[host.name] for host in (STORAGE, DATABASE) if host.name in answers})
    monkeypatch.setattr(backups, "run_ssh", hosts.run)
    return hosts


def test_a_restore_reaches_the_host_that_stores_the_item(context: SiteContext, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = answering(monkeypatch, sql=(0, "restored\n", ""))
    choice = {"overwrite": True, "dry_run": False}
    said = backups.restore(context, "latest", "database/kine", "x; rm -rf /", progress=Silent(), **choice)
    assert said == "sql: restored"
    ((address, command),) = hosts.commands
    assert address == DATABASE.address
    assert shlex.split(command) == [
        *(
            backups.PROGRAM,
            "restore",
            "--snapshot=latest",
            "--what=database/kine",
            "--target=x; rm -rf /",
            "--overwrite",
        )
    ]
    with pytest.raises(UserError, match="no backup host of site lab stores it") as caught:
        backups.restore(context, "latest", "export/other", "/x", progress=Silent(), **choice)
    assert "export/data" in str(caught.value.fix)


def test_snapshots_of_all_hosts_in_one_list(context: SiteContext, monkeypatch: pytest.MonkeyPatch) -> None:
    late, early = ({"id": i, "time": t, "item": "i", "host": "h"} for i, t in (("a", "2026-02"), ("b", "2026-01")))
    answering(monkeypatch, storage=(0, json.dumps([late]), ""), sql=(0, json.dumps([early]), ""))
    assert backups.snapshots(context) == [early, late]


def test_a_failed_backup_is_reported_after_the_others_ran(
    context: SiteContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = answering(
        monkeypatch, storage=(1, "export/data: the last backup failed: x\n", "Job failed"), sql=(0, "", "")
    )
    with pytest.raises(UserError, match="backups failed: storage: export/data: the last backup failed: x"):
        backups.back_up(context, Silent())
    assert [address for address, _ in hosts.commands] == [STORAGE.address, DATABASE.address]


def test_a_site_without_backups_shows_how_to_have_them(context: SiteContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backups, "hosts_with", lambda *_: ())
    with pytest.raises(UserError, match="no deployed host with the role backup"):
        backups.snapshots(replace(context))


def test_problems_of_roles_are_facts_of_the_host() -> None:
    facts = parse_answer((), "reached\nproblem \nproblem export/data: no backup for 40 h\n", "")
    assert facts.problems == ("export/data: no backup for 40 h",)
