"""Where the role nfs_server cannot limit folders: it gives the reason and what to run, before it changes anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata_bench.local_playbook import run_locally

TASKS = [{"include_role": {"name": "nfs_server", "tasks_from": "preflight"}}]
PLAY = {"hosts": "all", "gather_facts": False, "tasks": TASKS}


def preflight(directory: Path, *, kernel: bool, limit: int = 1024) -> tuple[bool, str]:
    """Whether the role's preflight ends well for an export in a directory that does not exist yet, and its output."""
    export = {"name": "homes", "id": 1, "path": str(directory / "new" / "homes"), "clients": ["192.0.2.0/24"]}
    variables = {"nfs_server_exports": [{**export, "folder_limit": limit}], "_nfs_server_in_kernel": kernel}
    done = run_locally(directory / "play.yml", "storage-1", PLAY, variables)
    assert not (directory / "new").exists()
    return done.returncode == 0, " ".join(done.stdout.split())


def test_container_is_refused(tmp_path: Path) -> None:
    ended_well, output = preflight(tmp_path, kernel=False)
    assert not ended_well
    assert "storage-1 is a container, and cannot limit the folders of homes" in output
    assert "`maximum_home_size`" in output


def test_file_system_without_quotas_is_refused(tmp_path: Path) -> None:
    ended_well, output = preflight(tmp_path, kernel=True)
    assert not ended_well
    assert f"{tmp_path}/new/homes on storage-1 limits its folders, and its file system (" in output
    assert ") has no quotas of projects; " in output
    assert "prjquota" in output
    assert "SOURCE" not in output
    assert "TARGET" not in output


@pytest.mark.parametrize("kernel", [True, False])
def test_without_limits_any_file_system_will_do(tmp_path: Path, kernel: bool) -> None:
    ended_well, output = preflight(tmp_path, kernel=kernel, limit=0)
    assert ended_well, output
