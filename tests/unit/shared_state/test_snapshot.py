"""Snapshots of a state directory, and the sites that may share one."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from strata.errors import UserError
from strata.models.site import Site
from strata.shared_state.record import RECORD, read_record
from strata.shared_state.snapshot import digest, pack, read_files, unpack, write_files
from strata.site.paths import SitePaths
from strata.site_file.checks.state import check

STATE = {"s3": {"bucket": "strata-state"}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A state directory."""
    for name in ("outputs/cloud.json", "pulumi/.pulumi/stacks/a.json", "pulumi/.pulumi/locks/a.json", "logs/run.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "ssh_key").write_text("key")
    (tmp_path / "ssh_key").chmod(0o600)
    return tmp_path


def test_what_is_read_is_what_is_written(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    files = read_files(root)
    assert sorted(files) == ["outputs/cloud.json", "pulumi/.pulumi/stacks/a.json", "ssh_key"]
    other = tmp_path_factory.mktemp("other")
    (other / "old.json").write_text("of the last snapshot")
    (other / "verified.json").write_text("of this host")
    write_files(other, unpack(pack(files)))
    assert read_files(other) == files
    assert (other / "verified.json").exists()
    assert (other / "ssh_key").stat().st_mode & 0o777 == 0o600


def test_host_keys_are_shared_but_no_change(root: Path) -> None:
    before = digest(read_files(root))
    (root / "known_hosts").write_text("one")
    files = read_files(root)
    assert digest(files) == before
    assert "known_hosts" in files
    (root / "ssh_key").write_text("another")
    assert digest(read_files(root)) != before


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "outputs/../../x", "shared.json"])
def test_other_entries_are_refused(name: str) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo(name))
    with pytest.raises(UserError, match="that Strata does not write"):
        unpack(stream.getvalue())


def test_an_operator_is_listed_once() -> None:
    key = "ssh-ed25519 AAAA"
    state = {**STATE, "operators": [{"name": "alice", "key": key}, {"name": "alice", "key": key}]}
    site = Site.model_validate({"name": "team", "domain": "example.org", "state": state})
    assert [finding.path for finding in check(site)] == [("state", "operators", 1, "name")]
    assert not list(check(Site.model_validate({"name": "team", "domain": "example.org", "state": STATE})))


def test_a_site_with_local_state_loads_no_s3_client() -> None:
    program = (
        "import sys, strata.cli.main\n"
        "from strata.cli.context import load_context\n"
        "load_context('lab')\n"
        "print(*sorted({m.split('.')[0] for m in sys.modules} & {'botocore', 'pyrage'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_a_damaged_record_is_named(state_directory: Path) -> None:
    paths = SitePaths("team").create()
    for text in ("", "[]", "{}", '{"url": "s3://x"'):
        (paths.root / RECORD).write_text(text)
        with pytest.raises(UserError, match=r"shared\.json is damaged"):
            read_record(paths)
