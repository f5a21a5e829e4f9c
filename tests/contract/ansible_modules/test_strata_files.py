"""The module strata_files under the real Ansible."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from strata.site.paths import REPOSITORY


def run(files: list[dict[str, str]], *options: str, **arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "ansible"),
            "localhost",
            *("--inventory", "localhost,", "--connection", "local", "--module-name", "strata_files"),
            *("--args", json.dumps({"files": files, **arguments}), *options),
        ],
        cwd=REPOSITORY,
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
            "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.oneline",
            "ANSIBLE_INVENTORY_ENABLED": "host_list",
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(done.stdout.partition("=>")[2])
    return result


def test_files_are_written_once_with_their_modes(tmp_path: Path) -> None:
    public, private = tmp_path / "a" / "b" / "public", tmp_path / "private"
    files = [
        {"path": str(public), "content": "line\n"},
        {"path": str(private), "content": "secret\n", "mode": "0600"},
    ]
    first = run(files, directory_mode="0700")
    assert (first["changed"], first["files"]) == (True, [str(public), str(private)])
    assert public.read_text() == "line\n"
    assert [p.stat().st_mode & 0o777 for p in (public, private, public.parent)] == [0o644, 0o600, 0o700]
    assert run(files)["changed"] is False


def test_only_what_differs_is_written(tmp_path: Path) -> None:
    same, other = tmp_path / "same", tmp_path / "other"
    same.write_text("same")
    same.chmod(0o644)
    other.write_text("old")
    result = run([{"path": str(same), "content": "same"}, {"path": str(other), "content": "new"}])
    assert result["files"] == [str(other)]
    assert other.read_text() == "new"
    same.chmod(0o600)
    assert run([{"path": str(same), "content": "same"}])["files"] == [str(same)]
    assert same.stat().st_mode & 0o777 == 0o644


def test_check_mode_only_reports(tmp_path: Path) -> None:
    file = tmp_path / "file"
    result = run([{"path": str(file), "content": "new"}], "--check")
    assert result["changed"] is True
    assert not file.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to somebody else")
def test_files_belong_to_whom_they_are_given(tmp_path: Path) -> None:
    file = tmp_path / "made" / "key.pem"
    files = [{"path": str(file), "content": "key", "mode": "0640", "owner": "nobody", "group": "daemon"}]
    assert run(files)["changed"]
    assert (file.owner(), file.group(), file.parent.group()) == ("nobody", "daemon", "daemon")
    assert not run(files)["changed"]
    os.chown(file, 0, 0)
    assert run(files)["changed"]
    assert (file.owner(), file.group()) == ("nobody", "daemon")
