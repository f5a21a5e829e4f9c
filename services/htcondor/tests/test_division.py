"""The queue that all tenants had in common is divided; what the program does, without HTCondor."""

# ruff: noqa: PLC0415  # a fixture puts the image's package on the path

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

HEADER = """\
107 1 CreationTimestamp 1795741838
101 0.0 Job Machine
103 0.0 NextClusterNum 10004
"""
CLUSTER = """\
105
101 0.{user} Owner (empty)
103 0.{user} User "{owner}@lab"
103 0.{user} Owner "{owner}"
101 0{cluster}.-1 Job Machine
101 {cluster}.0 Job Machine
103 {cluster}.0 GlobalJobId "access-point@lab#{cluster}.0#1795741863"
103 0{cluster}.-1 Owner "{owner}"
103 0{cluster}.-1 Args "-c /condor/spool/1/0/x {owner}"
103 {cluster}.0 SUBMIT_Iwd "/tmp/w"
103 {cluster}.0 Iwd "/condor/spool/{folder}/0/cluster{cluster}.proc0.subproc0"
106
"""
ADA, EVE = "research.ada", "ml-team.eve"
UNFINISHED = '105 \n103 1.0 Iwd "/lost"\n'
BANNER = '*** Offset = {offset} ClusterId = {cluster} ProcId = 0 Owner = "{owner}" CompletionDate = -1\n'


pytestmark = pytest.mark.usefixtures("own_programs")


@pytest.fixture
def division() -> Any:
    """strata_condor.division."""
    import strata_condor.division as found  # type: ignore[import-not-found]  # in the image, or put on the path above

    return found


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Clusters 1 and 10001, of two tenants, share a folder; cluster 2 has left the queue."""
    folder = tmp_path / "spool"
    folder.mkdir()
    jobs = [(1, 2, ADA), (10001, 3, EVE), (2, 2, ADA)]
    log = "".join(CLUSTER.format(cluster=c, folder=c % 10000, user=u, owner=o) for c, u, o in jobs)
    log = log.replace("/condor/spool", str(folder))
    queue = folder / "job_queue.log"
    queue.write_text(f"{HEADER}{log}102 02.-1\n102 2.0\n104 1.0 SUBMIT_Iwd\n{UNFINISHED}")
    for cluster in (1, 10001):
        files = folder / "1" / "0" / f"cluster{cluster}.proc0.subproc0"
        files.mkdir(parents=True)
        (files / "given").write_text(str(cluster))
    (folder / "1" / "cluster1.ickpt.subproc0").write_text("program")
    history = ""
    for cluster, owner in ((2, ADA), (3, EVE), (4, ADA)):
        history += f'Args = "{owner}"\n' + BANNER.format(offset=len(history), cluster=cluster, owner=owner)
    for name in ("history", "history.20261101T000000", "epoch_history"):
        (folder / name).write_text(history)
    (folder / "spool_version").write_text("minimum compatible spool version 1\n")
    return folder


def content(folder: Path) -> dict[str, str]:
    """Text of each file below the tenants' folders."""
    return {str(p.relative_to(folder)): p.read_text() for p in sorted((folder / "tenants").rglob("*")) if p.is_file()}


def test_each_tenant_has_its_jobs_files_and_history(division: Any, spool: Path) -> None:
    division.divide(spool, ["research", "ml-team", "new"])
    contents = content(spool)
    assert set(contents) == {
        f"tenants/{tenant}/{name}"
        for tenant, cluster in (("research", 1), ("ml-team", 10001))
        for name in ("job_queue.log", "history", "history.20261101T000000", "epoch_history",
                     f"1/0/cluster{cluster}.proc0.subproc0/given")
    } | {"tenants/research/1/cluster1.ickpt.subproc0"}  # fmt: skip
    for owner, other, cluster in ((ADA, EVE, 1), (EVE, ADA, 10001)):
        tenant = owner.partition(".")[0]
        log = contents[f"tenants/{tenant}/job_queue.log"]
        assert owner in log
        assert not [name for name, text in contents.items() if name.startswith(f"tenants/{tenant}/") and other in text]
        assert "103 0.0 NextClusterNum 10004\n" in log
        files = f"{spool}/tenants/{tenant}/1/0/cluster{cluster}.proc0.subproc0"
        assert f'103 {cluster}.0 Iwd "{files}"\n' in log
        # what a user wrote stays
        assert f'Args "-c {spool}/1/0/x {owner}"\n' in log
        assert f'GlobalJobId "access-point@lab#{cluster}.0#1795741863"\n' in log
    assert "SUBMIT_Iwd" not in contents["tenants/research/job_queue.log"]
    assert "101 2.0" not in contents["tenants/research/job_queue.log"]
    history = contents["tenants/research/history"]
    begin = history.index("Args", 1)
    assert [line.split()[3] for line in history.splitlines() if line.startswith("***")] == ["0", str(begin)]
    assert (spool / "tenants" / "new").is_dir()
    assert (spool / "undivided" / "job_queue.log").exists()
    assert {path.name for path in spool.iterdir()} == {"tenants", "undivided"}


def test_a_second_run_changes_nothing(division: Any, spool: Path) -> None:
    division.divide(spool, ["research", "ml-team"])
    before = content(spool)
    division.divide(spool, ["research", "ml-team"])
    assert content(spool) == before


def test_an_empty_spool_gets_folders(division: Any, tmp_path: Path) -> None:
    division.divide(tmp_path, ["research"])
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["tenants", "tenants/research"]


def test_killed_at_any_time_it_goes_on(
    division: Any, spool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each of its changes to names; the next run ends as if nothing had happened."""

    class Killed(Exception):
        pass

    first = tmp_path / "first"
    shutil.copytree(spool, first)
    division.divide(spool, ["research", "ml-team"])
    expected = content(spool)
    rename, rmdir = Path.rename, Path.rmdir
    for steps in range(100):
        shutil.rmtree(spool)
        shutil.copytree(first, spool)
        left = steps

        def step(path: Path, *arguments: Any) -> Any:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return rename(path, *arguments) if arguments else rmdir(path)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", step)
            patch.setattr(Path, "rmdir", step)
            try:
                division.divide(spool, ["research", "ml-team"])
            except Killed:
                pass
            else:
                break
        division.divide(spool, ["research", "ml-team"])
        assert content(spool) == expected, steps
        assert {path.name for path in spool.iterdir()} == {"tenants", "undivided"}, steps
    assert steps > 10


def test_a_queue_of_an_earlier_release_beside_the_tenants_is_refused(division: Any, spool: Path) -> None:
    division.divide(spool, ["research"])
    (spool / "job_queue.log").write_text(HEADER)
    with pytest.raises(FileExistsError, match="divided before"):
        division.divide(spool, ["research"])


def test_an_unknown_entry_changes_nothing(division: Any, spool: Path) -> None:
    with (spool / "job_queue.log").open("a") as file:
        file.write("108 of another version\n")
    before = {path: path.is_file() and path.read_bytes() for path in spool.rglob("*")}
    with pytest.raises(ValueError, match="unknown entry '108'"):
        division.divide(spool, ["research"])
    after = {path: path.is_file() and path.read_bytes() for path in spool.rglob("*") if "dividing.new" not in str(path)}
    assert after == before
