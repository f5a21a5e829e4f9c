"""Shared state on a real S3 server: one operator at a time, and no state is lost however a run ends."""

from __future__ import annotations

import http.client
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

import pyrage
import pytest

from strata.engine.lock import refresh, site_lock
from strata.errors import UserError
from strata.models.state import S3Location, SharedState, StateOperator
from strata.progress import Silent
from strata.retry import wait_until
from strata.shared_state import lease, move, session
from strata.shared_state.bucket import Bucket, Conflict
from strata.shared_state.sealing import IDENTITY_VARIABLE, PASSPHRASE_VARIABLE
from strata.shared_state.session import erase
from strata.shared_state.working_copy import WorkingCopy, name_of
from strata.site.paths import SitePaths
from strata_bench.s3 import S3Server, find_s3_server, s3_server

pytestmark = pytest.mark.xdist_group("s3-server")  # one at a time: its management socket has one name in a network

RUN = """
import os, sys
from strata.engine.lock import site_lock
from strata.models.state import SharedState
from strata.site.paths import SitePaths
from strata.shared_state import lease, session
lease.EXPIRY_SECONDS = 1e9  # a loaded machine may renew late
session.RENEWAL_SECONDS, session.SAVE_EVERY = float(os.environ["RENEWAL"]), 1
state = SharedState.model_validate_json(os.environ["STATE"])
paths = SitePaths("team")
with site_lock(paths, "up", state):
    before = sorted(p.name for p in paths.outputs.iterdir())
    (paths.outputs / (sys.argv[1] + ".json")).write_text(sys.argv[1] * 100)
    print("at work", *before, flush=True)
    sys.stdin.read()
"""


@dataclass
class Team:
    """Two operators, each with a state directory as on a host of its own.

    Args:
        folder: of the test.
        server: the S3 server.
        prefix: of this test's objects.
        monkeypatch: of the test.
    """

    folder: Path
    server: S3Server
    prefix: str
    monkeypatch: pytest.MonkeyPatch
    runs: list[subprocess.Popen[str]] = field(default_factory=list)
    keys: dict[str, pyrage.x25519.Identity] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.monkeypatch.setenv("AWS_ACCESS_KEY_ID", self.server.bucket)
        self.monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", self.server.secret_key)
        self.monkeypatch.setattr(lease, "EXPIRY_SECONDS", 1e9)  # a loaded machine may renew late
        self.monkeypatch.setattr(lease, "SETTLE_SECONDS", 0.0)
        self.monkeypatch.setattr(lease, "POLL_SECONDS", 0.1)
        for name in ("alice", "bob"):
            self.keys[name] = pyrage.x25519.Identity.generate()
            (self.folder / f"{name}.key").write_text(f"# key of {name}\n{self.keys[name]}\n")

    def state(self, *names: str, wait_minutes: int = 0) -> SharedState:
        """The section of the site file, with these operators."""
        operators = tuple(StateOperator(name=name, key=str(self.keys[name].to_public())) for name in names or self.keys)
        place = S3Location(bucket=self.server.bucket, endpoint=self.server.url, prefix=f"{self.prefix}/")
        return SharedState(s3=place, operators=operators, wait_minutes=wait_minutes)

    def on(self, name: str) -> SitePaths:
        """Goes to an operator's host."""
        self.monkeypatch.setenv("STRATA_STATE_DIR", str(self.folder / name))
        self.monkeypatch.setenv(IDENTITY_VARIABLE, str(self.folder / f"{name}.key"))
        return SitePaths("team")

    def start(self, name: str, *, wait_minutes: int = 0, renewal: float = 600) -> subprocess.Popen[str]:
        """An operator's run, which adds an output and works until its input ends."""
        self.on(name)
        self.monkeypatch.setenv("STATE", self.state(wait_minutes=wait_minutes).model_dump_json())
        self.monkeypatch.setenv("RENEWAL", str(renewal))
        pipe = subprocess.PIPE
        # as a script starts it in the background
        line = ["env", "--ignore-signal=INT", sys.executable, "-c", RUN, name]
        run = subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        self.runs.append(run)
        return run

    def outputs(self, name: str) -> list[str]:
        """What an operator finds after a command that only reads."""
        paths = self.on(name)
        refresh(paths, self.state())
        return sorted(file.name for file in paths.outputs.iterdir())

    @cached_property
    def bucket(self) -> Bucket:
        return Bucket(self.state().s3, "team")


def line(run: subprocess.Popen[str]) -> str:
    assert run.stdout is not None
    return run.stdout.readline().strip()


def until(condition: Callable[[], bool]) -> None:
    assert wait_until(lambda: None if condition() else "it", 120, pause=0.1) is None


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    program = find_s3_server()
    if program is None:
        pytest.skip("the server was not built: `strata doctor`")
    with s3_server(program, tmp_path_factory.mktemp("s3"), "strata-state", "a-secret-key") as found:
        yield found


@pytest.fixture
def team(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    found = Team(tmp_path, server, tmp_path.name, monkeypatch)
    yield found
    for run in found.runs:
        run.kill()
        run.communicate()


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


def test_a_killed_run_resumes_on_its_host_and_others_are_told(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    with site_lock(team.on("bob"), "up", team.state()):
        (team.on("bob").outputs / "bob.json").write_text("bob")
    alice = team.start("alice")
    assert line(alice) == "at work bob.json"
    alice.kill()
    alice.wait()
    monkeypatch.setattr(lease, "EXPIRY_SECONDS", -1.0)
    paths = team.on("bob")
    told = pytest.raises(UserError, match=r"interrupted \d+ s ago and may have unsaved state")
    with told, site_lock(paths, "up", team.state()):
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


def test_killed_between_upload_and_record_is_no_conflict(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_moved_there_and_back(team: Team) -> None:
    paths = team.on("alice").create()
    (paths.outputs / "cloud.json").write_text("{}")
    paths.passphrase_file.write_text("a passphrase")
    before = {p: p.read_bytes() for p in paths.root.rglob("*") if p.is_file()}
    with pytest.raises(UserError, match=r"the site file says s3://") as refused, site_lock(paths, "up", team.state()):
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
