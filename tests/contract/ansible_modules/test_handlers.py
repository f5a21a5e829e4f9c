"""Handlers that an interrupted run lost are run by the next one, in the real Ansible."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.drift import handlers
from strata.processes import MARK, end_orphans
from strata.site.paths import REPOSITORY, SitePaths
from strata_bench.waiting import eventually

from .site_playbook import SitePlaybook

pytestmark = pytest.mark.nightly

SITE = "interrupted"
STRATEGIES: dict[str, dict[str, str]] = {
    "linear": {},
    "mitogen": {
        "ANSIBLE_STRATEGY": "strata_linear",
        "ANSIBLE_STRATEGY_PLUGINS": str(REPOSITORY / "ansible" / "plugins" / "strategy"),
    },
}
LIMIT = 60.0
"""Seconds until a run has come to the task in which it is killed."""


class Daemon:
    """Something with a configuration, which a handler reloads on each host.

    Args:
        directory: for its files.
        paths: the site's.
        strategy: a key of STRATEGIES.
    """

    def __init__(self, directory: Path, paths: SitePaths, strategy: str = "linear") -> None:
        self.directory, self.paths = directory, paths
        self.playbook = SitePlaybook(directory, SITE, ("box", "other"))
        self.environment = self.playbook.environment() | STRATEGIES[strategy]
        self.play: dict[str, Any] = {
            "tasks": [self.configure()],
            "handlers": [self.handler("Reload")],
        }

    def configure(self, **more: Any) -> dict[str, Any]:
        """The task that writes the configuration."""
        file = {"dest": f"{self.directory}/{{{{ inventory_hostname }}}}.conf", "content": "new\n", "mode": "0644"}
        return {"name": "Configure it", "ansible.builtin.copy": file, "notify": "Reload", **more}

    def handler(self, name: str, command: str = "true", **more: Any) -> dict[str, Any]:
        """A handler that records its run."""
        script = f"{command} && echo {{{{ inventory_hostname }}}} {name} >>{self.directory}/calls"
        return {"name": name, "ansible.builtin.shell": script, **more}

    def run(self, *options: str) -> tuple[int, int]:
        """Runs the play; returns its exit status and how many tasks changed something."""
        done = subprocess.run(
            self.playbook.command(self.play, *options),
            cwd=REPOSITORY,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Callback dispatch" not in done.stdout + done.stderr, done.stdout + done.stderr
        return done.returncode, sum(int(n) for n in re.findall(r"changed=(\d+)", done.stdout))

    def kill(self, *options: str) -> None:
        """Runs the play and kills it as soon as a task has created the file `reached`; what is left ends as in `up`."""
        reached = self.directory / "reached"
        with subprocess.Popen(
            self.playbook.command(self.play, *options),
            cwd=REPOSITORY,
            env=self.environment | {MARK: str(self.paths.root)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                eventually(reached.exists, LIMIT, "the playbook has come to the point", pause=0.02)
            finally:
                os.killpg(process.pid, signal.SIGKILL)
                end_orphans(self.paths)

    def calls(self) -> list[str]:
        """Runs of handlers, by host."""
        file = self.directory / "calls"
        return sorted(file.read_text().splitlines()) if file.exists() else []

    def pending(self) -> set[tuple[str, str]]:
        """What the state directory has."""
        return handlers.load(self.paths, "hosts")


@pytest.fixture
def paths(state_directory: Path) -> SitePaths:
    return SitePaths(SITE).create()


@pytest.fixture
def daemon(tmp_path: Path, paths: SitePaths) -> Daemon:
    return Daemon(tmp_path, paths)


def wait(daemon: Daemon) -> dict[str, Any]:
    """A task during which the run is killed; the second time, it does nothing."""
    script = f"test -e {daemon.directory}/reached || {{ touch {daemon.directory}/reached; sleep 20; }}"
    return {"name": "Wait", "ansible.builtin.shell": script, "changed_when": False}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_handlers_of_a_run_killed_before_them(tmp_path: Path, paths: SitePaths, strategy: str) -> None:
    daemon = Daemon(tmp_path, paths, strategy)
    topic = {"listen": "Apply the settings"}
    daemon.play = {
        "vars": {"what": "settings"},
        "tasks": [daemon.configure(notify="Apply the {{ what }}", register="written"), wait(daemon)],
        "handlers": [
            daemon.handler("Reload", **topic),
            daemon.handler("Restart", when="written is not changed", **topic),
        ],
    }
    daemon.kill()
    assert daemon.pending() == {("box", "Configure it"), ("other", "Configure it")}
    assert daemon.run("--limit", "box") == (0, 2)
    assert daemon.calls() == ["box Reload"]
    assert daemon.run() == (0, 2)
    assert daemon.run() == (0, 0)
    assert daemon.calls() == ["box Reload", "other Reload"]
    assert [p for p in (paths.root / "handlers").rglob("*") if p.is_file()] == []


def test_a_run_killed_within_the_task(daemon: Daemon) -> None:
    """The host has the new file, and Ansible never heard of it; the task has a condition of its own."""
    daemon.play["tasks"] = [wait(daemon) | {"name": "Write it", "notify": "Reload"}]
    daemon.kill("--limit", "box")
    assert daemon.run() == (0, 2)
    assert daemon.calls() == ["box Reload"]


def test_a_later_failure_also_of_another_host_and_a_failure_of_the_handler(daemon: Daemon) -> None:
    failure = {"name": "Fail", "ansible.builtin.fail": {}, "when": "inventory_hostname == broken | default()"}
    daemon.play |= {
        "any_errors_fatal": True,
        "tasks": [daemon.configure(), failure],
        "handlers": [daemon.handler("Reload", "test '{{ broken | default() }}' != handler")],
    }
    both = {("box", "Configure it"), ("other", "Configure it")}
    assert daemon.run("-e", "broken=box")[0] != 0
    assert daemon.pending() == both
    assert daemon.run("-e", "broken=handler")[0] != 0
    assert (daemon.calls(), daemon.pending()) == ([], both)
    assert daemon.run() == (0, 4)
    assert daemon.calls() == ["box Reload", "other Reload"]
    assert daemon.pending() == set()


def test_flushed_handlers_are_done_when_a_later_task_fails(daemon: Daemon) -> None:
    """Of a role that the play includes: its handlers are not known before."""
    for part in ("tasks", "handlers"):
        (daemon.directory / "roles" / "one" / part).mkdir(parents=True)
    flush = {"name": "Reload it now", "ansible.builtin.meta": "flush_handlers"}
    failure = {"name": "Fail", "ansible.builtin.fail": {}, "when": "broken is defined"}
    early = failure | {"when": "early is defined"}
    roles = daemon.directory / "roles" / "one"
    (roles / "tasks" / "main.yml").write_text(yaml.safe_dump([daemon.configure(), early, flush]))
    (roles / "handlers" / "main.yml").write_text(yaml.safe_dump([daemon.handler("Reload")]))
    include = {"name": "Include it", "ansible.builtin.include_role": {"name": "{{ item }}"}, "loop": ["one"]}
    daemon.environment["ANSIBLE_ROLES_PATH"] = str(daemon.directory / "roles")
    daemon.play = {"tasks": [include, failure]}
    assert daemon.run("-e", "early=1")[0] != 0
    assert daemon.pending() == {("box", "one : Configure it"), ("other", "one : Configure it")}
    assert daemon.run("-e", "broken=1")[0] != 0
    assert daemon.calls() == ["box Reload", "other Reload"]
    assert daemon.pending() == set()
    assert daemon.run() == (0, 0)


def test_dry_runs_and_tags_leave_entries_and_those_of_tasks_that_are_gone_are_dropped(daemon: Daemon) -> None:
    entries = {("box", "Configure it"), ("box", "gone : Configure it/them")}
    for entry in entries:
        handlers.PendingHandlers(daemon.paths, "hosts").begin(*entry)
    assert daemon.run("--check")[0] == 0
    assert daemon.pending() == entries
    assert daemon.run("--tags", "some") == (0, 0)
    assert daemon.pending() == entries
    assert daemon.run() == (0, 4)
    assert daemon.pending() == set()
