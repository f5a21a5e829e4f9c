"""Repositories of tenants, written and read by unmodified huggingface_hub."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path

import pytest
import requests

from strata_bench.services import PostgreSQL
from strata_bench.waiting import eventually

from .conftest import MEBIBYTE, Client, Mirror, StartMirror
from .fake_hub import FakeHub, Repo

WEIGHTS = os.urandom(11 * MEBIBYTE)
"""More than a commit may hold: uploaded by git LFS."""
PUBLISH = """
from huggingface_hub import HfApi
api = HfApi()
api.create_repo("hep/keywords", private={private})
api.upload_folder(repo_id="hep/keywords", folder_path={folder!r}, commit_message="first")
result = sorted(api.list_repo_files("hep/keywords"))
"""
SNAPSHOT = """
import os
from huggingface_hub import snapshot_download
path = snapshot_download("hep/keywords")
result = {
    os.path.relpath(os.path.join(folder, name), path): os.path.getsize(os.path.join(folder, name))
    for folder, _, names in os.walk(path) for name in names
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model to publish."""
    made = tmp_path / "model"
    (made / "more").mkdir(parents=True)
    (made / "config.json").write_text("{}")
    (made / "README.md").write_text("---\nlicense: mit\n---\n# Keywords\n")
    (made / "more/empty").write_text("")
    (made / "model.safetensors").write_bytes(WEIGHTS)
    return made


def commit(
    mirror: Mirror, repository: str, *lines: tuple[str, dict[str, object]], token: str = "", kind: str = "models"
) -> requests.Response:
    """Posts a commit."""
    body = "\n".join(json.dumps({"key": key, "value": value}) for key, value in lines)
    token = token or mirror.token("ada", "hep")
    return mirror.get(f"/api/{kind}/{repository}/commit/main", token, method="POST", data=body)


def file(path: str, content: bytes = b"x") -> tuple[str, dict[str, object]]:
    """A line of a commit."""
    return "file", {"path": path, "content": base64.b64encode(content).decode(), "encoding": "base64"}


def create(mirror: Mirror, name: str = "keywords", tenant: str = "hep", **values: object) -> requests.Response:
    """Creates a repository as a member of the tenant."""
    body = {"name": name, "organization": tenant, **values}
    return mirror.get("/api/repos/create", mirror.token("ada", tenant), method="POST", json=body)


def test_a_folder_is_published_loaded_and_deleted(hub: FakeHub, mirror: Mirror, client: Client, folder: Path) -> None:
    ada, ben, eve = mirror.token("ada", "hep"), mirror.token("ben", "hep"), mirror.token("eve", "bio")
    program = PUBLISH.format(folder=str(folder), private=False)
    names = ["README.md", "config.json", "model.safetensors", "more/empty"]
    assert client.run(mirror.outside, program, ada) == names
    with hub.gone():
        for number, (url, token) in enumerate(((mirror.outside, eve), (mirror.inside, ""))):
            sizes = client.run(url, SNAPSHOT, token, cache=f"reader-{number}")
            assert sizes == {name: (folder / name).stat().st_size for name in names}
    part = mirror.get("/hep/keywords/resolve/main/model.safetensors", headers={"Range": "bytes=5-9"})
    assert (part.status_code, part.content) == (206, WEIGHTS[5:10])
    assert part.headers["X-Linked-ETag"] == f'"{hashlib.sha256(WEIGHTS).hexdigest()}"'

    program = """
from huggingface_hub import HfApi
api = HfApi()
api.upload_file(repo_id="hep/keywords", path_in_repo="config.json", path_or_fileobj=b'{"a": 1}')
api.delete_file("more/empty", "hep/keywords")
first = api.list_repo_commits("hep/keywords")[-2].commit_id
result = [sorted(api.list_repo_files("hep/keywords")), sorted(api.list_repo_files("hep/keywords", revision=first)),
          [m.id for m in api.list_models(author="hep")], api.repo_info("hep/keywords").private,
          [p.size for p in api.get_paths_info("hep/keywords", ["config.json", "none"])]]
"""
    expected = [names[:3], names, ["hep/keywords"], False, [8]]
    assert client.run(mirror.outside, program, ben, cache="ben") == expected
    program = "from huggingface_hub import HfApi\nHfApi().delete_repo('hep/keywords')"
    assert client.run(mirror.outside, program, eve, cache="eve")[0] == "HfHubHTTPError"
    assert client.run(mirror.outside, program, ben, cache="ben") is None
    assert client.run(mirror.inside, SNAPSHOT, cache="late")[0] == "RepositoryNotFoundError"
    assert [path for path in mirror.published.rglob("*") if path.is_file()] == []
    # the Hub was never asked for a namespace that is a tenant's
    assert [request.path for request in hub.seen if "hep" in request.path] == []


def test_a_private_repository_is_its_members(hub: FakeHub, mirror: Mirror, client: Client, folder: Path) -> None:
    ada = mirror.token("ada", "hep")
    program = PUBLISH.format(folder=str(folder), private=True)
    assert len(client.run(mirror.outside, program, ada)) == 4
    assert client.run(mirror.outside, SNAPSHOT, ada, cache="ada")["config.json"] == 2
    eve = mirror.token("eve", "bio")
    assert client.run(mirror.outside, SNAPSHOT, eve, cache="eve")[0] == "RepositoryNotFoundError"
    assert client.run(mirror.inside, SNAPSHOT, cache="pod")[0] == "RepositoryNotFoundError"
    for token in (eve, None, hub.token):
        for path in ("/api/models/hep/keywords", "/api/models/hep/keywords/tree/main", "/api/models/HEP/Keywords/refs",
                     "/hep/keywords/resolve/main/config.json"):  # fmt: skip
            assert mirror.get(path, token).status_code in (401, 404), path
        assert "hep/keywords" not in [entry["id"] for entry in mirror.get("/api/models", token).json()]
    assert hub.token not in {request.token for request in hub.seen if "hep" in request.path}
    # its administrators open it to all
    changed = mirror.get("/api/models/hep/keywords/settings", ada, method="PUT", json={"visibility": "public"})
    assert changed.status_code == 200, changed.text
    assert mirror.get("/hep/keywords/resolve/main/config.json").content == b"{}"


def test_the_bytes_of_another_s_repository_cannot_be_taken_by_their_hash(hub: FakeHub, mirror: Mirror) -> None:
    create(mirror, private=True)
    secret = b"secret of hep"
    assert commit(mirror, "hep/keywords", file("secret", secret)).status_code == 200
    create(mirror, "copy", "bio")
    oid = {"oid": hashlib.sha256(secret).hexdigest(), "size": len(secret)}
    eve = mirror.token("eve", "bio")
    body = {"operation": "upload", "objects": [oid]}
    asked = mirror.get("/bio/copy.git/info/lfs/objects/batch", eve, method="POST", json=body).json()
    assert "actions" in asked["objects"][0]  # as if it were unknown
    stolen = commit(mirror, "bio/copy", ("lfsFile", {"path": "x", "algo": "sha256", **oid}), token=eve)
    assert stolen.status_code == 400
    assert "not uploaded" in stolen.json()["error"]


def link(mirror: Mirror, content: bytes, size: int | None = None) -> tuple[str, str]:
    """The URL for an upload, and its hash."""
    sha = hashlib.sha256(content).hexdigest()
    body = {"operation": "upload", "objects": [{"oid": sha, "size": len(content) if size is None else size}]}
    path = "/hep/keywords.git/info/lfs/objects/batch"
    (shown,) = mirror.get(path, mirror.token("ada", "hep"), method="POST", json=body).json()["objects"]
    return shown["actions"]["upload"]["href"], sha


def test_an_upload_needs_its_own_link_and_its_own_bytes(hub: FakeHub, mirror: Mirror) -> None:
    create(mirror)
    url, sha = link(mirror, b"content")
    for wrong in (b"contenT", b"content more", b"cont"):
        assert requests.put(url, data=wrong, timeout=60).status_code == 400
    other = hashlib.sha256(b"other").hexdigest()
    for changed in (url.replace(sha, other), url.replace("size=7", "size=8"), url.replace("author=ada", "author=eve"),
                    url.partition("?")[0] + "?size=7&until=9999999999&author=ada&signature=" + "0" * 64):  # fmt: skip
        assert requests.put(changed, data=b"content", timeout=60).status_code == 403
    assert list(mirror.storage.rglob(sha)) == []
    assert requests.put(url, data=b"content", timeout=60).status_code == 200
    added = commit(mirror, "hep/keywords", ("lfsFile", {"path": "a", "oid": sha, "size": 7}))
    assert added.status_code == 200, added.text
    assert mirror.get("/hep/keywords/resolve/main/a").content == b"content"
    signature = url.partition("signature=")[2]
    assert signature
    assert signature not in mirror.service.log
    record = mirror.service.logged(event="audit", action="objects.upload", outcome="success")
    assert (record["username"], record["tenant"]) == ("ada", "hep")


def test_a_tenant_s_repositories_are_bounded_together(hub: FakeHub, start_mirror: StartMirror) -> None:
    with start_mirror(hub, tenant_bytes=1000) as mirror:
        create(mirror), create(mirror, "other"), create(mirror, "theirs", "bio")
        assert commit(mirror, "hep/keywords", file("a", b"a" * 600)).status_code == 200
        # the same bytes count once
        assert commit(mirror, "hep/other", file("b", b"a" * 600)).status_code == 200
        refused = commit(mirror, "hep/other", file("c", b"c" * 600))
        assert refused.status_code == 413
        assert "1000 bytes" in refused.json()["error"]
        assert mirror.get("/hep/other/resolve/main/c").status_code == 404
        body = {"operation": "upload", "objects": [{"oid": "0" * 64, "size": 401}]}
        token = mirror.token("ada", "hep")
        batch = mirror.get("/hep/other.git/info/lfs/objects/batch", token, method="POST", json=body).json()
        assert batch["objects"][0]["error"]["code"] == 413
        assert commit(mirror, "bio/theirs", file("c", b"c" * 600), token=mirror.token("eve", "bio")).status_code == 200
        deleted = {"name": "keywords", "organization": "hep"}
        assert mirror.get("/api/repos/delete", token, method="DELETE", json=deleted).status_code == 200
        assert mirror.get("/hep/other/resolve/main/b").content == b"a" * 600  # another repository has them
        assert mirror.get("/api/repos/delete", token, method="DELETE", json={"name": "hep/other"}).status_code == 200
        create(mirror)
        assert commit(mirror, "hep/keywords", file("c", b"c" * 900)).status_code == 200


def test_who_may_write(hub: FakeHub, mirror: Mirror) -> None:
    hub.repos["models/google/tiny"] = Repo({"x": b"1"})
    assert create(mirror).status_code == 200
    assert create(mirror).status_code == 409
    eve, ada, body = mirror.token("eve", "bio"), mirror.token("ada", "hep"), {"name": "x", "organization": "hep"}
    for token, status in ((None, 401), (hub.token, 401), (eve, 403)):
        assert mirror.get("/api/repos/create", token, method="POST", json=body).status_code == status
        assert commit(mirror, "hep/keywords", file("x"), token=token or "hf_none").status_code == status
    foreign = {"name": "x", "organization": "google"}
    assert mirror.get("/api/repos/create", ada, method="POST", json=foreign).status_code == 403
    assert commit(mirror, "google/tiny", file("x")).status_code == 403
    # without a name of a tenant, the only one of the caller
    assert mirror.get("/api/repos/create", ada, method="POST", json={"name": "mine"}).json()["id"] == "hep/mine"
    both = mirror.token("joe", "hep", "bio")
    assert mirror.get("/api/repos/create", both, method="POST", json={"name": "mine"}).status_code == 403
    record = mirror.service.logged(event="audit", action="repositories.create", outcome="denied", username="eve")
    assert record["tenant"] == "hep"


@pytest.mark.parametrize(
    "lines",
    [
        [file("../x")], [file("/x")], [file("a//b")], [file(".git/config")], [file("a\\b")], [file("a\0b")], [file("")],
        [("file", {"path": "x", "content": "no base64!", "encoding": "base64"})], [("file", {"path": "x"})],
        [("copyFile", {"path": "x", "srcPath": "y"})], [("lfsFile", {"path": "x", "oid": "0" * 64})],
        [("lfsFile", {"path": "x", "oid": "../../x"})], [("header", {"summary": "a\0b"})], [file("a"), file("a/b")],
        [("header", {"summary": 1})],
    ],
)  # fmt: skip
def test_commits_that_cannot_be(hub: FakeHub, mirror: Mirror, lines: list[tuple[str, dict[str, object]]]) -> None:
    create(mirror)
    assert commit(mirror, "hep/keywords", file("kept")).status_code == 200
    head = mirror.get("/api/models/hep/keywords").json()["sha"]
    refused = commit(mirror, "hep/keywords", file("other"), *lines)
    assert refused.status_code == 400, refused.text
    assert mirror.get("/api/models/hep/keywords").json()["sha"] == head


def test_a_commit_on_another_parent_is_refused(hub: FakeHub, mirror: Mirror) -> None:
    create(mirror)
    first = commit(mirror, "hep/keywords", file("a")).json()["commitOid"]
    assert (
        commit(mirror, "hep/keywords", ("header", {"summary": "b", "parentCommit": first}), file("b")).status_code
        == 200
    )
    late = commit(mirror, "hep/keywords", ("header", {"summary": "c", "parentCommit": first}), file("c"))
    assert late.status_code == 412
    assert mirror.get("/hep/keywords/resolve/main/c").status_code == 404
    assert mirror.get(f"/hep/keywords/resolve/{first}/b").status_code == 404


def test_what_is_too_large_for_a_commit_is_refused(hub: FakeHub, mirror: Mirror) -> None:
    create(mirror)
    assert commit(mirror, "hep/keywords", file("a", b"x" * (16 * MEBIBYTE))).status_code == 413


def test_own_repositories_come_before_the_hub_s_in_lists(hub: FakeHub, mirror: Mirror) -> None:
    for number in range(3):
        create(mirror, f"m{number}")
        hub.repos[f"models/google/m{number}"] = Repo({})
    create(mirror, "words", type="dataset")
    seen: list[str] = []
    path = "/api/models?limit=2"
    for _ in range(4):
        response = mirror.get(path)
        page = [entry["id"] for entry in response.json()]
        assert len(page) <= 2
        seen += page
        if "next" not in response.links:
            break
        path = response.links["next"]["url"].removeprefix(mirror.inside)
    assert seen == ["hep/m2", "hep/m1", "hep/m0", "google/m0", "google/m1", "google/m2"]
    assert [entry["id"] for entry in mirror.get("/api/models?search=M1").json()] == ["hep/m1"]
    assert [entry["id"] for entry in mirror.get("/api/datasets").json()] == ["hep/words"]


def test_repositories_survive_a_restart(hub: FakeHub, start_mirror: StartMirror) -> None:
    with start_mirror(hub, cache_bytes=0) as first:
        create(first)
        assert commit(first, "hep/keywords", file("a", b"text")).status_code == 200
    with start_mirror(hub, first.storage, cache_bytes=0) as second:
        assert second.get("/hep/keywords/resolve/main/a").content == b"text"


def test_datasets_are_published_too(hub: FakeHub, mirror: Mirror, client: Client) -> None:
    program = """
from huggingface_hub import HfApi, hf_hub_download
api = HfApi()
api.create_repo("words", repo_type="dataset", exist_ok=True)
api.create_repo("words", repo_type="dataset", exist_ok=True)
api.upload_file(repo_id="hep/words", repo_type="dataset", path_in_repo="a/b.txt", path_or_fileobj=b"text")
result = open(hf_hub_download("hep/words", "a/b.txt", repo_type="dataset")).read()
"""
    assert client.run(mirror.outside, program, mirror.token("ada", "hep")) == "text"
    assert mirror.get("/api/models/hep/words").status_code == 401


def test_an_upload_that_no_commit_names_is_deleted_after_a_day(
    hub: FakeHub, start_mirror: StartMirror, postgresql: PostgreSQL
) -> None:
    with start_mirror(hub) as first:
        create(first)
        url, old = link(first, b"old")
        assert requests.put(url, data=b"old", timeout=60).status_code == 200
        assert commit(first, "hep/keywords", file("kept", b"kept")).status_code == 200
    database = json.loads((first.storage / "database.json").read_text())["HUB_MIRROR_DATABASE_NAME"]
    postgresql.sql("UPDATE objects SET uploaded_at = now() - interval '2 days'", database)
    with start_mirror(hub, first.storage) as second:
        eventually(lambda: not list(second.storage.rglob(old)), 60, "the upload is deleted")
        assert second.get("/hep/keywords/resolve/main/kept").content == b"kept"
