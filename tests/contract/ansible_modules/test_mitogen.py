"""The engine's way to run a playbook, on the real Ansible with mitogen: its tasks, changes and failures are read."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.engine.ansible import PlaybookResult, _follow, playbook_environment
from strata.progress import Silent
from strata.site.paths import REPOSITORY
from strata.timeline import Timeline

COPY = {"content": "1", "dest": "{{ playbook_dir }}/{{ item }}"}
TASKS: list[dict[str, Any]] = [
    {"name": "Write files", "ansible.builtin.copy": COPY, "loop": [1, 2]},
    {"name": "Change nothing", "ansible.builtin.ping": {}},
    {"name": "Note it", "strata_files": {"files": [{"path": "{{ playbook_dir }}/noted", "content": "x"}]}},
    # its imports begin in a package that no file makes
    {"name": "Use a collection", "community.general.python_requirements_info": {}},
    {"name": "Fail", "ansible.builtin.command": {"argv": ["/bin/false"]}},
]


def follow(
    tmp_path: Path, host_variables: str, tasks: list[dict[str, Any]] = TASKS
) -> tuple[PlaybookResult, list[str]]:
    book = tmp_path / "book.yml"
    book.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    inventory = tmp_path / "hosts.ini"
    inventory.write_text("[all]\n" + "".join(f"{name} {host_variables}\n" for name in ("a", "b")))
    result = PlaybookResult()
    with subprocess.Popen(
        [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(inventory), str(book)],
        cwd=REPOSITORY,
        env=playbook_environment() | {"ANSIBLE_INVENTORY_ENABLED": "ini"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = list(_follow(process.stdout, result, Silent(), Timeline()))
    return result, lines


@pytest.fixture(params=[None, pytest.param("linear", marks=pytest.mark.nightly)], ids=["mitogen", "linear"])
def strategy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str | None:
    monkeypatch.delenv("ANSIBLE_STRATEGY", raising=False)
    if request.param:
        monkeypatch.setenv("ANSIBLE_STRATEGY", request.param)
    chosen: str | None = request.param
    return chosen


def test_tasks_and_failures_are_read(tmp_path: Path, strategy: str | None) -> None:
    # an interpreter that has nothing of Ansible: as on a host, all that modules import comes from here
    result, lines = follow(tmp_path, "ansible_connection=local ansible_python_interpreter=/usr/bin/python3")
    begun = [line.split(" TASK ")[1] for line in lines if " TASK " in line]
    assert begun == [str(task["name"]) for task in TASKS], "\n".join(lines)
    # both hosts are this machine: whoever comes second finds the files
    assert {task.split(": ", 1)[1] for task in result.changed_tasks} == {"Write files", "Note it"}
    assert sorted(result.failed_hosts) == ["a", "b"]
    assert all(": Fail: " in failure for failure in result.failures), result.failures
    assert any("Use of strategy plugins not included" in line for line in lines) == (strategy is None)


def test_a_host_without_ssh_is_named_with_the_message_of_ssh(tmp_path: Path, strategy: str | None) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    result, _ = follow(tmp_path, f"ansible_host=127.0.0.1 ansible_port={port} ansible_user=root")
    assert sorted(result.failed_hosts) == ["a", "b"]
    for failure in result.failures:
        assert re.match(rf"[ab]: Write files: unreachable: .*ssh: connect to host 127.0.0.1 port {port}: ", failure)
        assert "EOF on stream" not in failure


def test_any_processor_is_used(tmp_path: Path, strategy: str | None) -> None:
    """mitogen by itself has Ansible, all its workers and ssh share one of two processors."""
    tasks: list[dict[str, Any]] = [
        {"name": "Ask where modules run", "ansible.builtin.command": {"argv": ["nproc"]}, "register": "modules"},
        {
            "name": "Note it",
            "ansible.builtin.copy": {
                "content": "{{ lookup('pipe', 'nproc') }} {{ modules.stdout }}",
                "dest": "{{ playbook_dir }}/{{ inventory_hostname }}",
            },
        },
    ]
    result, lines = follow(
        tmp_path, f"ansible_connection=local ansible_python_interpreter={sys.executable}", tasks=tasks
    )
    assert not result.failures, "\n".join(lines)
    available = len(os.sched_getaffinity(0))
    assert [(tmp_path / name).read_text() for name in ("a", "b")] == [f"{available} {available}"] * 2


def test_the_operator_chooses_the_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_STRATEGY", "linear")
    assert playbook_environment()["ANSIBLE_STRATEGY"] == "linear"
    monkeypatch.delenv("ANSIBLE_STRATEGY")
    environment = playbook_environment()
    assert environment["ANSIBLE_STRATEGY"] == "strata_linear"
    assert (Path(environment["ANSIBLE_STRATEGY_PLUGINS"]) / "strata_linear.py").is_file()
