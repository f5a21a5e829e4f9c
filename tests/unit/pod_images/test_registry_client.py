"""A registry that stumbles is asked again; one that stays down is reported."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests

from strata.errors import UserError
from strata.images import registry_client
from strata.images.registry_client import RegistryClient
from strata.site.secrets import pki


class Session:
    """Answers one after the other; the last one repeatedly."""

    def __init__(self, *answers: int | Exception) -> None:
        self.answers = list(answers)
        self.asked = 0

    def request(self, *_: Any, **__: Any) -> Any:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        response = requests.Response()
        response.status_code, response.reason = answer, "Said So"
        response.headers["Docker-Content-Digest"] = "sha256:1"
        response.raw = SimpleNamespace(read=lambda _: b"", close=lambda: None, release_conn=lambda: None)
        return response


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RegistryClient:
    monkeypatch.setattr(registry_client, "PAUSE", 0.0)
    monkeypatch.setattr(registry_client, "PATIENCE", 0.05)
    (tmp_path / "ca.pem").write_text(pki.create_authority("lab")[0])
    return RegistryClient("10.0.0.2", "registry.lab.strata.test", tmp_path / "ca.pem", "the password")


def test_errors_half_way_are_passed_over(client: RegistryClient, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(requests.ConnectionError("reset"), requests.ReadTimeout("slow"), 503, 200)
    monkeypatch.setattr(client, "_session", session)
    monkeypatch.setattr(registry_client, "PATIENCE", 5.0)
    assert client.digest("strata/ml-hub", "1") == "sha256:1"
    assert session.asked == 4


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (503, "503 Said So"),
        (requests.ConnectionError("refused"), "refused"),
    ],
)
def test_one_that_stays_down_is_reported(
    client: RegistryClient, monkeypatch: pytest.MonkeyPatch, answer: int | Exception, reason: str
) -> None:
    monkeypatch.setattr(client, "_session", Session(answer))
    message = rf"registry at 10\.0\.0\.2:5001 does not respond for strata/ml-hub:1: {reason}"
    with pytest.raises(UserError, match=message):
        client.digest("strata/ml-hub", "1")


def test_strange_certificate_is_not_tried_again(client: RegistryClient, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(requests.exceptions.SSLError("[SSL: CERTIFICATE_VERIFY_FAILED] not ours"))
    monkeypatch.setattr(client, "_session", session)
    with pytest.raises(UserError, match="not ours"):
        client.digest("strata/ml-hub", "1")
    assert session.asked == 1


def test_what_is_not_there_is_no_error(client: RegistryClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_session", Session(404))
    assert client.digest("strata/ml-hub", "1") is None


def test_a_wrong_password_is_reported_at_once(client: RegistryClient, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(401)
    monkeypatch.setattr(client, "_session", session)
    with pytest.raises(UserError, match="answered 401 to a question for strata/ml-hub:1"):
        client.digest("strata/ml-hub", "1")
    assert session.asked == 1


def test_skopeo_finds_the_password_in_a_private_file(client: RegistryClient, tmp_path: Path) -> None:
    client.write_credentials(tmp_path)
    file = tmp_path / "auth.json"
    assert file.stat().st_mode & 0o077 == 0
    assert json.loads(file.read_text())["auths"] == {"10.0.0.2:5001": {"auth": "b3BlcmF0b3I6dGhlIHBhc3N3b3Jk"}}
