"""Shared state on a real S3 server: moved, opened by its operators only, destroyed, damaged, misconfigured."""

from __future__ import annotations

import pytest

from strata.engine.run_lock import refresh, site_lock
from strata.errors import UserError
from strata.models.state import SharedState
from strata.progress import Silent
from strata.shared_state import lease, move, session
from strata.shared_state.sealing import PASSPHRASE_VARIABLE
from strata.shared_state.session import erase
from strata.shared_state.working_copy import WorkingCopy, name_of
from strata_bench.s3 import S3Server

from .team import Team, until

pytestmark = pytest.mark.xdist_group("s3-server")  # one at a time: its management socket has one name in a network


def test_moved_there_and_back(team: Team) -> None:
    paths = team.on("alice").create()
    (paths.outputs / "cloud.json").write_text("{}")
    paths.passphrase_file.write_text("a passphrase")
    before = {p: p.read_bytes() for p in paths.root.rglob("*") if p.is_file()}
    with pytest.raises(UserError, match=r"the site file has s3://") as refused, site_lock(paths, "up", team.state()):
        pytest.fail("the local state would be ignored")
    assert refused.value.fix == "`strata state move`"
    assert "encrypt 2 files" in move.describe(paths, team.state(), back=False)[0]
    assert team.bucket.names() == []
    assert move.to_bucket(paths, team.state(), Silent()) == 1
    with pytest.raises(UserError, match=r"and site\.yaml has no state"), site_lock(paths, "up", None):
        pytest.fail("the old place is in use")
    assert team.outputs("bob") == ["cloud.json"]
    team.on("alice")
    assert move.to_directory(paths, team.state(), Silent()) == 1
    with site_lock(paths, "up", None):
        assert {p: p.read_bytes() for p in before} == before
    with pytest.raises(UserError, match="to a local directory by"):
        team.outputs("bob")
    team.on("alice")
    assert move.to_bucket(paths, team.state(), Silent()) == 2
    assert team.outputs("bob") == ["cloud.json"]


def test_a_killed_move_resumes_at_once(team: Team) -> None:
    paths = team.on("alice").create()
    (paths.outputs / "cloud.json").write_text("{}")
    killed = WorkingCopy(paths, team.state()).holder("state move")
    lease.acquire(team.bucket, killed, 0, Silent())
    assert move.to_bucket(paths, team.state(), Silent()) == 1
    assert lease.look(team.bucket) is None


def test_a_command_on_the_state_renews_its_lock(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "RENEWAL_SECONDS", 0.05)
    copy = WorkingCopy(team.on("alice").create(), team.state())

    def renewed() -> bool:
        seen = lease.look(team.bucket)
        return seen is not None and seen.holder.renewal > 0

    with session.lock(copy, "state reencrypt", Silent()):
        until(renewed)
    assert lease.look(team.bucket) is None


def test_what_the_server_stores_otherwise_is_not_moved(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = team.on("alice").create()
    (paths.outputs / "cloud.json").write_text("{}")
    monkeypatch.setattr(WorkingCopy, "fetch", lambda *_: {})
    with pytest.raises(UserError, match="nothing was moved"):
        move.to_bucket(paths, team.state(), Silent())
    with site_lock(paths, "up", None):
        assert (paths.outputs / "cloud.json").read_text() == "{}"


def test_only_operators_can_open_it(team: Team, server: S3Server) -> None:
    paths = team.on("alice")
    secret = "a-passphrase-of-the-site"
    with site_lock(paths, "up", team.state("alice")):
        paths.passphrase_file.write_text(secret)
    stored = server.folder / team.prefix / "team" / name_of(1)
    assert secret.encode() not in stored.read_bytes()
    with pytest.raises(UserError, match="does not open"):
        team.outputs("bob")
    team.on("alice")
    copy = WorkingCopy(paths, team.state("alice", "bob"))
    assert copy.push(always=True)
    assert copy.prune(1) == 1
    team.outputs("bob")
    assert team.on("bob").passphrase_file.read_text() == secret


def test_an_operator_cannot_lock_itself_out(team: Team) -> None:
    paths = team.on("alice").create()
    (paths.outputs / "cloud.json").write_text("{}")
    with pytest.raises(UserError, match="does not open"):
        WorkingCopy(paths, team.state("bob")).push()
    assert team.bucket.names("snapshots/") == []


def test_a_passphrase_opens_it_too(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    state = team.state().model_copy(update={"operators": ()})
    paths = team.on("alice")
    monkeypatch.setenv(PASSPHRASE_VARIABLE, "correct horse")
    with site_lock(paths, "up", state):
        (paths.outputs / "cloud.json").write_text("{}")
    monkeypatch.setenv(PASSPHRASE_VARIABLE, "wrong horse")
    with pytest.raises(UserError, match="does not open"):
        refresh(team.on("bob"), state)


def test_a_bucket_that_is_behind_is_refused(team: Team) -> None:
    paths = team.on("alice")
    with site_lock(paths, "up", team.state()):
        (paths.outputs / "cloud.json").write_text("{}")
    team.bucket.delete(name_of(1))
    with pytest.raises(UserError, match="has snapshot 0, this working copy is of 1"):
        refresh(paths, team.state())


def test_a_destroyed_site_leaves_nothing(team: Team) -> None:
    paths = team.on("alice")
    with site_lock(paths, "up", team.state()):
        (paths.outputs / "cloud.json").write_text("{}")
    erase(paths, team.state())
    assert team.bucket.names() == []


def test_what_another_saved_after_a_destroy_is_not_deleted(team: Team) -> None:
    paths = team.on("alice")
    with site_lock(paths, "destroy", team.state()):
        (paths.outputs / "cloud.json").write_text("{}")
    with site_lock(team.on("bob"), "up", team.state()):
        (team.on("bob").outputs / "bob.json").write_text("bob")
    team.on("alice")
    with pytest.raises(UserError, match="saved snapshot 2 after the site was removed"):
        erase(paths, team.state())
    assert team.outputs("bob") == ["bob.json", "cloud.json"]


def test_a_damaged_snapshot_is_named_and_replaced_from_a_working_copy(team: Team, server: S3Server) -> None:
    paths = team.on("alice")
    with site_lock(paths, "up", team.state()):
        (paths.outputs / "cloud.json").write_text("{}")
    stored = server.folder / team.prefix / "team" / name_of(1)
    intact = stored.read_bytes()
    for wrong in (intact[:-20], intact[:-4] + b"junk", b"junk"):
        stored.write_bytes(wrong)
        with pytest.raises(UserError, match=r"snapshots/00000001\.age at http.* is damaged") as refused:
            team.outputs("bob")
        assert "strata state reencrypt" in str(refused.value.fix)
    assert team.outputs("alice") == ["cloud.json"]
    assert WorkingCopy(team.on("alice"), team.state()).push(always=True)
    assert team.outputs("bob") == ["cloud.json"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bucket": "another-bucket"}, "another-bucket"),
        ({"endpoint": "http://127.0.0.1:9"}, "is not reachable"),
        ({"profile": "nobody"}, "there is no AWS profile nobody"),
    ],
)
def test_what_is_wrong_with_the_place_is_named(team: Team, change: dict[str, str], message: str) -> None:
    place = team.state().s3.model_copy(update=change)
    with pytest.raises(UserError, match=message) as refused:
        refresh(team.on("alice"), SharedState(s3=place))
    assert refused.value.fix


def test_a_wrong_secret_is_refused(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    with pytest.raises(UserError, match="refuses access"):
        refresh(team.on("alice"), team.state())
