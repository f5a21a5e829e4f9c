"""What a playbook put on a host is recorded by our plugins in the real Ansible, and found changed by the probe."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from strata.drift import baseline, host_probe
from strata.drift.baseline import HostBaseline
from strata.drift.hosts import compare
from strata.layers import Layer
from strata.site.paths import REPOSITORY, SitePaths

from .site_playbook import SitePlaybook

SITE = "manifested"


@pytest.fixture
def paths(state_directory: Path) -> SitePaths:
    return SitePaths(SITE).create()


def play(tmp_path: Path, tasks: list[dict[str, Any]], *options: str, name: str = "hosts") -> int:
    playbook = SitePlaybook(tmp_path, SITE)
    done = subprocess.run(
        playbook.command({"tasks": tasks}, *options, name=name),
        cwd=REPOSITORY,
        env=playbook.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "strata_manifest" not in done.stderr, done.stderr
    return done.returncode


def probe(desired: HostBaseline) -> dict[str, Any]:
    files = {path: host_probe.look_at_file(path, f.digest.partition(":")[0]) for path, f in desired.files.items()}
    return {"files": files, "units": {}}


def tasks(tmp_path: Path) -> list[dict[str, Any]]:
    secret = {"path": str(tmp_path / "secret"), "content": "do not tell\n", "mode": "0600"}
    return [
        {"name": "ours, hidden", "strata_files": {"files": [secret]}, "no_log": True},
        {
            "name": "in a loop",
            "ansible.builtin.copy": {"dest": str(tmp_path / "{{ item }}"), "content": "x\n", "mode": "0640"},
            "loop": ["one", "two"],
        },
    ]


def test_files_are_recorded_without_their_content_and_modifications_found(tmp_path: Path, paths: SitePaths) -> None:
    assert play(tmp_path, tasks(tmp_path)) == 0
    recorded = baseline.load(paths, "hosts", "box")
    assert recorded is not None
    assert {Path(p).name: f.mode for p, f in recorded.files.items()} == {"secret": "0600", "one": "0640", "two": "0640"}
    text = (baseline.directory(paths, "hosts") / "box.json").read_text()
    assert "do not tell" not in text
    assert compare(Layer.HOSTS, "box", recorded, probe(recorded)) == []
    assert play(tmp_path, tasks(tmp_path)) == 0  # unchanged tasks are recorded as well
    assert baseline.load(paths, "hosts", "box") == recorded
    assert [p.name for p in (paths.root / "manifests").iterdir()] == ["hosts"]
    # each way to change a file by hand is found
    (tmp_path / "secret").write_text("another\n")
    (tmp_path / "one").chmod(0o666)
    (tmp_path / "two").unlink()
    drift = compare(Layer.HOSTS, "box", recorded, probe(recorded))
    assert {(Path(d.object).name, d.property) for d in drift} == {
        ("secret", "content"),
        ("one", "mode"),
        ("two", "state"),
    }
    assert not any("another" in d.found for d in drift)


def test_a_file_that_the_run_takes_away_again_is_not_missed(tmp_path: Path, paths: SitePaths) -> None:
    """A file with a token for the time of a join, in a loop, without one, with its directory; what is put back."""
    directory = tmp_path / "join"
    gone = [
        {"name": "directory", "ansible.builtin.file": {"path": str(directory), "state": "directory", "mode": "0700"}},
        {
            "name": "in it",
            "ansible.builtin.copy": {"dest": f"{directory}/token", "content": "t\n", "mode": "0600"},
        },
        {"name": "beside it", "ansible.builtin.copy": {"dest": f"{directory}.conf", "content": "c\n", "mode": "0600"}},
        {"name": "directory away", "ansible.builtin.file": {"path": str(directory), "state": "absent"}},
        {"name": "away", "ansible.builtin.file": {"path": str(tmp_path / "secret"), "state": "absent"}},
        {
            "name": "away in a loop",
            "ansible.builtin.file": {"path": str(tmp_path / "{{ item }}"), "state": "absent"},
            "loop": ["one", "two"],
        },
        {"name": "back", "ansible.builtin.copy": {"dest": str(tmp_path / "two"), "content": "y\n", "mode": "0640"}},
    ]
    assert play(tmp_path, tasks(tmp_path) + gone) == 0
    recorded = baseline.load(paths, "hosts", "box")
    assert recorded is not None
    assert sorted(Path(p).name for p in recorded.files) == ["join.conf", "two"]
    assert compare(Layer.HOSTS, "box", recorded, probe(recorded)) == []


def test_a_failed_run_leaves_the_manifest_of_the_last_success(tmp_path: Path, paths: SitePaths) -> None:
    play(tmp_path, tasks(tmp_path)[:1])
    before = baseline.load(paths, "hosts", "box")
    assert play(tmp_path, [*tasks(tmp_path), {"name": "no", "ansible.builtin.fail": {}}]) != 0
    assert baseline.load(paths, "hosts", "box") == before


@pytest.mark.nightly
def test_a_run_with_tags_adds_and_forgets_nothing(tmp_path: Path, paths: SitePaths) -> None:
    play(tmp_path, tasks(tmp_path)[:1])
    tagged = tasks(tmp_path)
    tagged[1]["tags"] = ["some"]
    assert play(tmp_path, tagged, "--tags", "some") == 0
    recorded = baseline.load(paths, "hosts", "box")
    assert recorded is not None
    assert {Path(p).name for p in recorded.files} == {"secret", "one", "two"}


def test_a_dry_run_records_nothing(tmp_path: Path, paths: SitePaths) -> None:
    assert play(tmp_path, tasks(tmp_path), "--check") == 0
    assert baseline.load(paths, "hosts", "box") is None


def test_a_unit_is_compared_with_what_systemd_reports() -> None:
    desired = HostBaseline.model_validate(
        {
            "units": {
                "kept": {"active": True, "enabled": True},
                "stopped": {"active": True},
                "masked": {"enabled": True},
                "gone": {"active": True},
                "not-needed-here": {"active": True},
            }
        }
    )
    plain = {"ActiveState": "active", "UnitFileState": "enabled", "ConditionResult": "yes", "LoadState": "loaded"}
    units = {
        "kept": plain,
        "stopped": {**plain, "ActiveState": "inactive"},
        "masked": {**plain, "UnitFileState": "masked"},
        "gone": {**plain, "ActiveState": "inactive", "LoadState": "not-found"},
        "not-needed-here": {**plain, "ActiveState": "inactive", "ConditionResult": "no"},
    }
    drift = compare(Layer.HOSTS, "box", desired, {"files": {}, "units": units})
    assert [(d.object, d.property, d.wanted, d.found) for d in drift] == [
        ("box: stopped", "ActiveState", "active", "inactive"),
        ("box: masked", "UnitFileState", "enabled", "masked"),
        ("box: gone", "ActiveState", "active", "missing"),
    ]


def test_the_probe_answers_in_json(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    question = {"files": {str(file): "sha1", str(tmp_path / "none"): "sha256"}, "units": []}
    done = subprocess.run(
        [sys.executable, host_probe.__file__],
        input=json.dumps(question) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(done.stdout)["files"]
    assert answer[str(file)]["digest"] == "sha1:11f6ad8ec52a2984abaafd7c3b516503785c2072"
    assert answer[str(tmp_path / "none")] is None
