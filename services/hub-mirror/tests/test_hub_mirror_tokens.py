"""Tokens: the site's end at the mirror, the Hub's open what is their owner's, and nothing of it for others."""

from __future__ import annotations

import os

import pytest
import requests

from .conftest import Client, Mirror
from .fake_hub import FakeHub, Repo

WEIGHTS = os.urandom(200_000)
GATED = "/meta/gated/resolve/main/model.safetensors"
PRIVATE = "/owner/secret/resolve/main/model.safetensors"


@pytest.fixture
def protected(hub: FakeHub) -> FakeHub:
    """A Hub with a gated and a private model, and an open one."""
    hub.repos["models/meta/gated"] = Repo({"model.safetensors": WEIGHTS}, gated=True)
    hub.repos["models/owner/secret"] = Repo({"model.safetensors": WEIGHTS}, private=True)
    hub.repos["models/google/tiny"] = Repo({"config.json": b"{}"})
    return hub


@pytest.mark.parametrize("path", [GATED, PRIVATE])
def test_what_a_token_opens_is_not_kept_for_others(protected: FakeHub, mirror: Mirror, path: str) -> None:
    for _ in range(2):
        assert mirror.get(path, protected.token).content == WEIGHTS
        head = mirror.get(path, protected.token, method="HEAD")
        assert int(head.headers["Content-Length"]) == len(WEIGHTS)
        part = mirror.get(path, protected.token, headers={"Range": "bytes=5-9"})
        assert (part.status_code, part.content) == (206, WEIGHTS[5:10])
        assert mirror.get(path).status_code == 401
        assert mirror.get(path, "hf_another").status_code in (403, 404)
    assert mirror.cached == []
    with protected.gone():
        assert mirror.get(path, protected.token).status_code == 504


def test_a_private_card_and_its_list_are_their_owner_s(protected: FakeHub, mirror: Mirror) -> None:
    for path in ("/api/models/owner/secret", "/api/models/owner/secret/tree/main", "/api/models/owner/secret/refs"):
        assert mirror.get(path, protected.token).status_code == 200
        assert mirror.get(path).status_code == 401
        with protected.gone():
            # the refusal is what anyone gets
            assert mirror.get(path, protected.token).status_code in (401, 504)

    def listed(token: str | None) -> list[str]:
        return [entry["id"] for entry in mirror.get("/api/models?author=owner", token).json()]

    assert listed(protected.token) == ["owner/secret"]
    assert listed(None) == []


def test_an_open_repository_is_asked_for_without_the_token(protected: FakeHub, mirror: Mirror) -> None:
    assert mirror.get("/google/tiny/resolve/main/config.json", protected.token).content == b"{}"
    assert {request.token for request in protected.seen} == {None}
    assert len(mirror.cached) == 1


def test_the_token_goes_to_the_hub_and_not_to_its_cdn(protected: FakeHub, mirror: Mirror) -> None:
    assert mirror.get(GATED, protected.token).content == WEIGHTS
    assert {request.token for request in protected.seen if request.cdn} == {None}
    assert protected.token in {request.token for request in protected.seen if not request.cdn}
    assert protected.token not in mirror.service.log


def test_a_site_s_token_never_goes_to_the_hub(protected: FakeHub, mirror: Mirror) -> None:
    site = mirror.token("ada", "hep")
    for path in (GATED, PRIVATE, "/api/models/owner/secret", "/api/models"):
        mirror.get(path, site)
    assert {request.token for request in protected.seen} == {None}
    # beside it, in the other header, the Hub's token is the caller's
    headers = {"X-Tapis-Token": site, "Authorization": f"Bearer {protected.token}"}
    assert requests.get(f"{mirror.outside}{GATED}", headers=headers, timeout=60).content == WEIGHTS


def test_from_outside_every_path_needs_a_token_of_the_site(protected: FakeHub, mirror: Mirror) -> None:
    paths = ("/api/models", "/api/models/google/tiny", "/api/whoami-v2", "/google/tiny/resolve/main/config.json", "/x")
    for path in paths:
        for token in (None, protected.token):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            refused = requests.get(f"{mirror.outside}{path}", headers=headers, timeout=60)
            assert refused.status_code == 401, path
            assert refused.headers["WWW-Authenticate"].startswith('Bearer realm="hub-mirror"')
    assert protected.seen == []
    opened = requests.get(
        f"{mirror.outside}{paths[3]}", headers={"Authorization": f"Bearer {mirror.token()}"}, timeout=60
    )
    assert opened.content == b"{}"


def test_other_tokens_are_refused_and_not_passed_on(protected: FakeHub, mirror: Mirror) -> None:
    for value in ("Bearer nonsense", "Basic dXNlcjpwYXNz", "Bearer hf_no-such", "Bearer a.b.c"):
        refused = mirror.get("/api/models/google/tiny", headers={"Authorization": value})
        assert refused.status_code == 401, value
        assert refused.headers["X-Error-Message"] == "Invalid credentials in Authorization header"
    assert protected.seen == []


def test_huggingface_hub_with_a_token_of_the_hub(protected: FakeHub, mirror: Mirror, client: Client) -> None:
    program = """
from huggingface_hub import hf_hub_download, whoami
import os
result = [whoami()["name"], os.path.getsize(hf_hub_download("owner/secret", "model.safetensors"))]
"""
    assert client.run(mirror.inside, program, protected.token) == ["owner", len(WEIGHTS)]
    assert client.run(mirror.inside, program, cache="second")[0] == "LocalTokenNotFoundError"


def test_pods_cannot_choose_the_address_that_limits_count(protected: FakeHub, mirror: Mirror) -> None:
    response = mirror.get(
        "/api/repos/delete", method="DELETE", headers={"X-Forwarded-For": "192.0.2.1"}, json={"name": "x"}
    )
    assert response.status_code == 401
    record = mirror.service.logged(event="audit", action="repositories.delete")
    assert record["address"] in ("127.0.0.1", "unknown")
