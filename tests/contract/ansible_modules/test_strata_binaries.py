"""The module strata_binaries under the real Ansible, as `ansible-playbook` and as `strata up` run it."""

from __future__ import annotations

import errno
import gzip
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.engine.ansible import playbook_environment
from strata.errors import UserError
from strata.site.paths import REPOSITORY
from strata.toolchain.packed import packed

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="binaries belong to root")

SCRIPT = "#!/bin/sh\necho one\n" + "# what nobody reads\n" * 10_000


@pytest.fixture(
    params=[None, pytest.param("linear", marks=pytest.mark.nightly)],
    ids=["as strata runs them", "as ansible-playbook runs them"],
)
def environment(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("STRATA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("ANSIBLE_INVENTORY_ENABLED", "host_list")
    if request.param:
        monkeypatch.setenv("ANSIBLE_STRATEGY", request.param)
    else:
        monkeypatch.delenv("ANSIBLE_STRATEGY", raising=False)
    return playbook_environment() | {"ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "source" / "tool"
    file.parent.mkdir()
    file.write_text(SCRIPT)
    return file


def installed(source: Path) -> Path:
    """Where the host is to have it."""
    return source.parent.parent / "host" / "bin" / source.name


def run(environment: dict[str, str], source: Path, *options: str) -> tuple[int, str]:
    """One host, which is this machine; how many tasks changed something (-1: it failed), and what was reported."""
    tasks = [
        {
            "name": "Tool",
            "strata_binaries": {"binaries": {"tool": str(source)}, "directory": str(installed(source).parent)},
        }
    ]
    play: dict[str, Any] = {"hosts": "all", "gather_facts": False, "tasks": tasks}
    # an interpreter that has nothing of ours, as on a host
    play["vars"] = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}
    book = source.parent.parent / "book.yml"
    book.write_text(yaml.safe_dump([play]))
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "box,", str(book), *options],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    changed = re.search(r"changed=(\d)", said)
    return (int(changed[1]) if done.returncode == 0 and changed else -1), said


def test_a_binary_is_installed_once_and_repaired(environment: dict[str, str], source: Path) -> None:
    tool = installed(source)
    assert run(environment, source)[0] == 1
    assert subprocess.check_output([tool], text=True) == "one\n"
    assert (tool.owner(), tool.stat().st_mode & 0o7777) == ("root", 0o755)
    before = tool.stat().st_mtime_ns
    assert run(environment, source)[0] == 0
    tool.chmod(0o700)
    assert run(environment, source)[0] == 1
    assert (tool.stat().st_mode & 0o7777, tool.stat().st_mtime_ns) == (0o755, before), "the mode alone was wrong"
    tool.write_text("modified outside Strata")
    assert run(environment, source, "--check")[0] == 1
    assert tool.read_text() == "modified outside Strata"
    assert run(environment, source)[0] == 1
    assert tool.read_text() == SCRIPT
    source.write_text(SCRIPT.replace("one", "two"))
    assert run(environment, source)[0] == 1
    assert subprocess.check_output([tool], text=True) == "two\n"
    assert [p.name for p in tool.parent.iterdir()] == ["tool"], "what a run leaves"


def test_failures_are_reported_and_nothing_is_replaced(environment: dict[str, str], source: Path) -> None:
    tool = installed(source)
    tool.parent.mkdir(parents=True)
    tool.write_text("old")
    file, _ = packed(source)
    good = file.read_bytes()
    file.write_bytes(good[: len(good) // 2])
    changed, said = run(environment, source)
    assert changed == -1
    assert f"remove {file}" in " ".join(said.split())
    other = source.with_name("other")
    other.write_text("something else")
    file.write_bytes(packed(other)[0].read_bytes())
    changed, said = run(environment, source)
    assert changed == -1
    assert "what was sent has the SHA-256" in said
    assert tool.read_text() == "old"
    assert [p.name for p in tool.parent.iterdir()] == ["tool"], "what a failed run leaves"
    source.unlink()
    changed, said = run(environment, source)
    assert changed == -1
    assert "cannot be read: No such file or directory" in said
    assert "Traceback" not in said


def test_it_is_compressed_once(environment: dict[str, str], source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, digest = packed(source)
    assert file.stat().st_size < source.stat().st_size / 100
    assert gzip.decompress(file.read_bytes()) == SCRIPT.encode()
    written = file.stat().st_mtime_ns
    assert packed(source, digest) == packed(source) == (file, digest)
    assert file.stat().st_mtime_ns == written
    file.unlink()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(UserError, match=r"tool could not be compressed to .*: No space left on device"):
            packed(source)
    assert not file.exists()
    assert packed(source) == (file, digest)
