"""Shared state on a real S3 server: one operator at a time, and no state is lost however a run ends."""

from __future__ import annotations

import http.client
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from strata.engine.run_lock import refresh, site_lock
from strata.errors import UserError
from strata.progress import Silent
from strata.shared_state import lease
from strata.shared_state.bucket import Conflict
from strata.shared_state.working_copy import WorkingCopy, name_of

from .team import Team, line, until

pytestmark = pytest.mark.xdist_group("s3-server")  # one at a time: its management socket has one name in a network


def test_one_waits_for_the_other_and_continues_from_its_state(team: Team) -> None:
    alice = team.start("alice")
    assert line(alice) == "at work"
    bob = team.start("bob", wait_minutes=10)
    assert bob.stderr is not None
    assert "waiting for" in (waiting := bob.stderr.readline())
    assert "(`strata up`, since 20" in waiting
    alice.communicate(timeout=120)
    assert line(bob) == "at work alice.json"
    bob.communicate(timeout=120)
    assert (alice.returncode, bob.returncode) == (0, 0)
    assert team.outputs("alice") == ["alice.json", "bob.json"]
    assert lease.look(team.bucket) is None


def test_without_waiting_the_second_is_refused_and_changes_nothing(team: Team) -> None:
    alice = team.start("alice")
    assert line(alice) == "at work"
    paths = team.on("bob")
    with pytest.raises(UserError, match="is at work on this site"), site_lock(paths, "up", team.state()):
        pytest.fail("two runs at once")
    assert list(paths.outputs.iterdir()) == []
    with pytest.raises(UserError, match="it is at work"):
        lease.unlock(team.bucket, force=False)
    assert lease.look(team.bucket) is not None


def test_of_two_that_take_the_lock_at_once_one_holds_it(team: Team) -> None:
    copies = {name: WorkingCopy(team.on(name).create(), team.state()).holder("up") for name in ("alice", "bob")}
    lease.acquire(team.bucket, copies["alice"], 0, Silent())
    with pytest.raises(Conflict):
        team.bucket.put(lease.LOCK, b"{}")
    seen = lease.look(team.bucket)
    assert seen is not None
    assert lease.renew(team.bucket, copies["alice"], 1)
    with pytest.raises(Conflict):  # an outdated view of the lock takes nothing over
        team.bucket.put(lease.LOCK, b"{}", replacing=seen.etag)
    assert not lease.renew(team.bucket, copies["bob"], 1)


def test_a_killed_run_resumes_on_its_host_and_others_are_reported(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    with site_lock(team.on("bob"), "up", team.state()):
        (team.on("bob").outputs / "bob.json").write_text("bob")
    alice = team.start("alice")
    assert line(alice) == "at work bob.json"
    alice.kill()
    alice.wait()
    monkeypatch.setattr(lease, "EXPIRY_SECONDS", -1.0)
    paths = team.on("bob")
    refused = pytest.raises(UserError, match=r"interrupted \d+ s ago and may have unsaved state")
    with refused, site_lock(paths, "up", team.state()):
        pytest.fail("alice's state would be lost")
    with site_lock(team.on("alice"), "up", team.state()):
        assert (team.on("alice").outputs / "alice.json").exists()
    assert team.outputs("bob") == ["alice.json", "bob.json"]


def test_after_unlock_the_unsaved_state_of_the_other_is_set_aside(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    alice = team.start("alice")
    assert line(alice) == "at work"
    alice.kill()
    alice.wait()
    monkeypatch.setattr(lease, "EXPIRY_SECONDS", -1.0)
    assert lease.unlock(team.bucket, force=False) is not None
    with site_lock(team.on("bob"), "up", team.state()):
        (team.on("bob").outputs / "bob.json").write_text("bob")
    paths = team.on("alice")
    with pytest.raises(UserError, match="changes that were not saved"), site_lock(paths, "up", team.state()):
        pytest.fail("bob's state would be lost")
    aside = WorkingCopy(paths, team.state()).discard()
    assert aside is not None
    assert (aside / "outputs" / "alice.json").read_text() == "alice" * 100
    assert team.outputs("alice") == ["bob.json"]


def test_a_run_saves_while_it_works(team: Team) -> None:
    alice = team.start("alice", renewal=0.1)
    assert line(alice) == "at work"
    until(lambda: any(Path(name).name.startswith("0") for name in team.bucket.names("snapshots/")))
    alice.kill()
    alice.wait()
    lease.unlock(team.bucket, force=True)
    assert team.outputs("bob") == ["alice.json"]


def test_a_run_that_lost_its_lock_ends(team: Team) -> None:
    alice = team.start("alice", renewal=0.1)
    assert line(alice) == "at work"
    while alice.poll() is None:  # a renewal under way may write the lock again
        lease.unlock(team.bucket, force=True)
        time.sleep(0.1)
    assert alice.returncode
    assert alice.stderr is not None
    assert "the lock of this run was removed by another operator" in alice.stderr.read()


def test_an_upload_that_is_cut_off_leaves_the_last_snapshot(team: Team) -> None:
    paths = team.on("alice")
    with site_lock(paths, "up", team.state()):
        (paths.outputs / "cloud.json").write_text("first")
    place = team.state().s3
    stored = {"Bucket": place.bucket, "Key": f"{place.prefix}team/{name_of(2)}"}
    target = urlsplit(team.bucket._client.generate_presigned_url("put_object", Params=stored))
    connection = http.client.HTTPConnection(target.netloc, timeout=60)
    connection.putrequest("PUT", f"{target.path}?{target.query}")
    connection.putheader("Content-Length", str(8 << 20))
    connection.endheaders()
    connection.send(bytes(1 << 20))  # the rest never comes, as of a killed process
    connection.close()
    assert WorkingCopy(paths, team.state()).newest() == 1
    assert team.outputs("bob") == ["cloud.json"]
    with site_lock(paths, "up", team.state()):
        (paths.outputs / "cloud.json").write_text("second")
    assert team.outputs("bob") == ["cloud.json"]
    assert (team.on("bob").outputs / "cloud.json").read_text() == "second"


def test_killed_between_upload_and_record_is_not_a_conflict(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = team.on("alice")
    with site_lock(paths, "up", team.state()):
        (paths.outputs / "cloud.json").write_text("first")
    copy = WorkingCopy(paths, team.state())
    (paths.outputs / "cloud.json").write_text("second")
    put = copy.bucket.put

    def put_and_die(*args: object, **options: object) -> str:
        put(*args, **options)  # type: ignore[arg-type]  # as it was called
        raise KeyboardInterrupt

    monkeypatch.setattr(copy.bucket, "put", put_and_die)
    with pytest.raises(KeyboardInterrupt):
        copy.push()
    (paths.outputs / "cloud.json").write_text("third")
    with site_lock(paths, "up", team.state()):
        assert (paths.outputs / "cloud.json").read_text() == "third"
    team.outputs("bob")
    assert (team.on("bob").outputs / "cloud.json").read_text() == "third"


def test_an_interrupted_download_is_repeated(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("first", "second"):
        with site_lock(team.on("alice"), "up", team.state()):
            (team.on("alice").outputs / "cloud.json").write_text(text)
    paths = team.on("bob").create()

    def cut_off(root: Path, files: object) -> None:
        (root / "outputs" / "half.json").write_text("half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("strata.shared_state.working_copy.write_files", cut_off)
        with pytest.raises(KeyboardInterrupt):
            refresh(paths, team.state())
    assert team.outputs("bob") == ["cloud.json"]
