"""What a caller or a Hub could send to reach more than files of repositories."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from .conftest import MEBIBYTE, Mirror, StartMirror
from .fake_hub import SHAPES, FakeHub, Repo

LARGE = b"x" * 200_000


@pytest.fixture(scope="module")
def shared_hub() -> Iterator[FakeHub]:
    """A Hub with one small file."""
    made = FakeHub()
    made.start()
    made.repos["models/google/tiny"] = Repo({"x": b"1"})
    yield made
    made.stop()


@pytest.fixture(scope="module")
def shared_mirror(start_mirror: StartMirror, shared_hub: FakeHub) -> Iterator[Mirror]:
    """One mirror for tests that leave nothing behind."""
    with start_mirror(shared_hub) as mirror:
        yield mirror


@pytest.fixture
def hub(shared_hub: FakeHub) -> FakeHub:
    """The Hub, which has seen nothing yet."""
    shared_hub.seen.clear()
    shared_hub.location = ""
    return shared_hub


@pytest.fixture
def mirror(shared_mirror: Mirror) -> Mirror:
    """The same for all tests of this module."""
    return shared_mirror


def raw(mirror: Mirror, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
    """A request as it is: clients would normalize the path."""
    connection = http.client.HTTPConnection(urlsplit(mirror.inside).netloc, timeout=60)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    return response.status, response.read()


@pytest.mark.parametrize(
    "path",
    [
        "/google/tiny/resolve/main/../../../etc/passwd", "/google/tiny/resolve/main/%2e%2e/%2e%2e/etc/passwd",
        "/google/tiny/resolve/main/..%2f..%2fetc%2fpasswd", "/google/tiny/resolve/main/a//b",
        "/google/tiny/resolve/main/a%5c..%5cb", "/google/tiny/resolve/main/a%00b",
        "/google/tiny/resolve/main/a%0d%0aX:1",
        "/google/tiny/resolve/main/.git/config", "/google/tiny/resolve/..%2f..%2fapi/x",
        "/google/tiny/resolve/%2e%2e/x",
        "/google/tiny/resolve/refs%2F..%2Fx/y", "/google/tiny/resolve/a%0d%0ab/x", "/../tiny/resolve/main/x",
        "/google/..%2ftiny/resolve/main/x", "/google/a%20b/resolve/main/x", "/go%40ogle/tiny/resolve/main/x",
        "/google/tiny/resolve/main/%ff", "/api/models/..%2f..%2fwhoami-v2", "/api/models/google/%2e%2e",
        "/api/models/google/tiny/tree/main/..%2f..", "/api/models/google/tiny/revision/a%3fb", "/api/models/a%23b/c",
        "/api/models/google/tiny/tree/main/..", "/api/models?search=a%0d%0ab", "/api/models?limit=0",
        "/api/models?limit=-1", "/api/models?limit=x", "/api/models?search=" + "a" * 5000,
        "/http%3a%2f%2fx/y/resolve/main/z",
    ],
)  # fmt: skip
def test_names_that_cannot_be_are_refused_before_anything_is_asked(hub: FakeHub, mirror: Mirror, path: str) -> None:
    status, body = raw(mirror, path)
    assert status in (400, 404), body
    assert hub.seen == []


def test_paths_that_are_nothing(hub: FakeHub, mirror: Mirror) -> None:
    for path in ("/", "/google", "/google/tiny", "/google/tiny/raw/main/x", "/google/tiny/resolve", "/datasets", "/api",
                 "/google/tiny/resolve/main", "/api/models/google/tiny/nothing", "/api/models/google/tiny/refs/x",
                 "/api/spaces", "/api/models/google/tiny/revision", "/spaces/a/b"):  # fmt: skip
        assert raw(mirror, path)[0] in (400, 404), path
    assert hub.seen == []


@pytest.mark.parametrize(
    "location",
    ["http://localhost:{port}/x", "http://127.0.0.1:1/x", "file:///etc/passwd", "http://169.254.169.254/latest",
     "https://127.0.0.1:{port}/x", "http://127.0.0.1.evil.test/x", "//[::1]/x", "gopher://127.0.0.1:{port}/"],
)  # fmt: skip
def test_redirects_lead_to_the_hub_s_own_hosts_only(hub: FakeHub, mirror: Mirror, location: str) -> None:
    hub.repos["models/google/large"] = Repo({"model.bin": LARGE})
    hub.location = location.format(port=hub.cdn_port)
    try:
        response = mirror.get("/google/large/resolve/main/model.bin")
        assert LARGE not in response.content
        assert not response.ok
    except OSError:
        pass  # the response had begun
    assert [request for request in hub.seen if request.cdn] == []
    assert len(mirror.cached) <= 1  # the small file of other tests


def test_headers_of_the_caller_do_not_reach_the_hub(hub: FakeHub, mirror: Mirror) -> None:
    status, body = raw(mirror, "/google/tiny/resolve/main/x", Cookie="a=b", **{"X-Evil": "1", "Host": "evil.test"})
    assert (status, body) == (200, b"1")
    link = mirror.get("/api/models?limit=1", headers={"Host": "evil.test"})
    assert "evil.test" not in str(link.headers)


@pytest.mark.parametrize(
    ("body", "kind"),
    [(b"", "application/json"), (b"{}", "application/json"), (b'{"paths": 1}', "application/json"),
     (b"[" * 10_000, "application/json"), (b'{"paths": ["../x"]}', "application/json"),
     (b"\xff", "application/x-www-form-urlencoded"), (b'{"paths": ["\\u0000"]}', "application/json")],
)  # fmt: skip
def test_bodies_that_cannot_be(hub: FakeHub, mirror: Mirror, body: bytes, kind: str) -> None:
    path = "/api/models/google/tiny/paths-info/main"
    response = mirror.get(path, method="POST", data=body, headers={"Content-Type": kind})
    assert response.status_code == 400, response.text


def test_an_answer_that_is_not_a_hub_s_is_none(hub: FakeHub, mirror: Mirror) -> None:
    SHAPES["refusals"]["entry_not_found"], kept = (
        {"status": 500, "headers": {}, "body": {}},
        SHAPES["refusals"]["entry_not_found"],
    )
    try:
        response = mirror.get("/google/tiny/resolve/main/none")
    finally:
        SHAPES["refusals"]["entry_not_found"] = kept
    assert response.status_code == 504
    assert "status 500" in response.json()["error"]


def test_a_body_is_bounded_before_it_is_read(mirror: Mirror) -> None:
    for path in ("/api/repos/create", "/api/models/hep/x/settings", "/api/models/google/tiny/paths-info/main"):
        method = "PUT" if path.endswith("settings") else "POST"
        large = mirror.get(path, mirror.token("ada", "hep"), method=method, data=b" " * (5 * MEBIBYTE))
        assert large.status_code == 413, path
        chunked = mirror.get(path, mirror.token("ada", "hep"), method=method, data=(b" " * MEBIBYTE for _ in range(6)))
        assert chunked.status_code in (400, 413), path
