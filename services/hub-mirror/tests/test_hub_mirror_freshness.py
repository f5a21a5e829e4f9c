"""Branches are looked up again, commits never; refusals are remembered for a while."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from .conftest import Mirror, StartMirror
from .fake_hub import FakeHub, Repo

CONFIG = "/google/tiny/resolve/main/config.json"


def test_a_branch_that_moved_is_seen_and_its_old_commit_stays(hub: FakeHub, mirror: Mirror) -> None:
    hub.repos["models/google/tiny"] = repo = Repo({"config.json": b"1"})
    old = mirror.get(CONFIG).headers["X-Repo-Commit"]
    assert mirror.get("/api/models/google/tiny").json()["sha"] == old
    repo.files["config.json"] = b"2"
    assert mirror.get(CONFIG).content == b"2"
    assert mirror.get("/api/models/google/tiny").json()["sha"] == repo.head != old
    assert mirror.get(f"/google/tiny/resolve/{old}/config.json").content == b"1"
    with hub.gone():
        assert mirror.get(CONFIG).content == b"2"
        assert mirror.get(CONFIG, method="HEAD").headers["X-Repo-Commit"] == repo.head


def test_within_its_time_a_branch_is_not_looked_up(hub: FakeHub, start_mirror: StartMirror) -> None:
    hub.repos["models/google/tiny"] = repo = Repo({"config.json": b"1"})
    with start_mirror(hub, revalidate_seconds=3600) as mirror:
        assert mirror.get(CONFIG).content == b"1"
        assert mirror.get("/api/models/google/tiny").status_code == 200
        repo.files["config.json"] = b"2"
        asked = len(hub.seen)
        assert mirror.get(CONFIG).content == b"1"
        assert mirror.get("/api/models/google/tiny").status_code == 200
        assert len(hub.seen) == asked


def test_what_is_known_of_a_commit_is_not_asked_again(hub: FakeHub, mirror: Mirror) -> None:
    hub.repos["models/google/tiny"] = repo = Repo({"config.json": b"1"})
    paths = [f"/api/models/google/tiny/{word}/{repo.head}" for word in ("revision", "tree")]
    paths += [f"/google/tiny/resolve/{repo.head}/{name}" for name in ("config.json", "none.json")]

    def ask() -> list[int]:
        posted = mirror.get(
            f"/api/models/google/tiny/paths-info/{repo.head}", method="POST", data={"paths": "config.json"}
        )
        assert [entry["path"] for entry in posted.json()] == ["config.json"]
        return [mirror.get(path).status_code for path in paths]

    assert ask() == [200, 200, 200, 404]
    asked = len(hub.seen)
    assert ask() == [200, 200, 200, 404]
    assert len(hub.seen) == asked


def test_a_card_s_list_of_files_shows_which_are_missing(hub: FakeHub, mirror: Mirror) -> None:
    hub.repos["models/google/tiny"] = repo = Repo({"config.json": b"1"})
    mirror.get("/api/models/google/tiny")
    with hub.gone():
        missing = mirror.get(f"/google/tiny/resolve/{repo.head}/chat_template.jinja", method="HEAD")
        assert (missing.status_code, missing.headers["X-Error-Code"]) == (404, "EntryNotFound")
        unknown = mirror.get(f"/google/tiny/resolve/{repo.head}/config.json")
        assert unknown.status_code == 504
        assert "no copy" in unknown.json()["error"]


def test_refusals_are_remembered_for_their_time(hub: FakeHub, start_mirror: StartMirror) -> None:
    with start_mirror(hub, missing_seconds=3600) as mirror:
        for path in ("/api/models/google/none", "/google/none/resolve/main/config.json"):
            for _ in range(2):
                response = mirror.get(path)
                assert (response.status_code, response.headers["X-Error-Code"]) == (401, "RepoNotFound")
        assert len(hub.seen) == 2


def test_equal_questions_at_once_are_asked_once(hub: FakeHub, start_mirror: StartMirror) -> None:
    hub.repos["models/google/tiny"] = Repo({"config.json": b"1"})
    with start_mirror(hub, revalidate_seconds=3600) as mirror, ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: mirror.get("/api/models/google/tiny").status_code, range(8)))
    assert statuses == [200] * 8
    assert len(hub.seen) == 1


def test_branches_are_shown(hub: FakeHub, mirror: Mirror) -> None:
    hub.repos["datasets/google/words"] = repo = Repo({"a.txt": b"1"})
    (main,) = mirror.get("/api/datasets/google/words/refs").json()["branches"]
    assert main["targetCommit"] == repo.head
