"""A registry that stumbles is asked again; one that stays down is told."""

from __future__ import annotations

import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strata.errors import UserError
from strata.images import registry_client
from strata.images.registry_client import RegistryClient
from strata.site.secrets import pki


class Connection:
    """Answers one after the other; the last one again and again."""

    def __init__(self, *answers: int | Exception) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.closed = 0
        self.sock = None

    def request(self, *_: Any, **__: Any) -> None:
        self.asked += 1

    def getresponse(self) -> Any:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        headers = [("Docker-Content-Digest", "sha256:1")]
        return SimpleNamespace(status=answer, reason="Said So", read=bytes, getheaders=lambda: headers)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RegistryClient:
    monkeypatch.setattr(registry_client, "PAUSE", 0.0)
    monkeypatch.setattr(registry_client, "PATIENCE", 0.05)
    (tmp_path / "ca.pem").write_text(pki.create_authority("lab")[0])
    return RegistryClient("10.0.0.2", "registry.lab.strata.test", tmp_path / "ca.pem")


def test_errors_half_way_are_passed_over(client: RegistryClient, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection(ConnectionResetError("reset"), TimeoutError("slow"), 503, 200)
    monkeypatch.setattr(client, "_connection", connection)
    monkeypatch.setattr(registry_client, "PATIENCE", 5.0)
    assert client.digest("strata/ml-hub", "1") == "sha256:1"
    assert (connection.asked, connection.closed) == (4, 2)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (503, "503 Said So"),
        (ConnectionRefusedError("refused"), "refused"),
        (TimeoutError("timed out"), "no whole answer within 15 s"),
    ],
)
def test_one_that_stays_down_is_told(
    client: RegistryClient, monkeypatch: pytest.MonkeyPatch, answer: int | Exception, reason: str
) -> None:
    monkeypatch.setattr(client, "_connection", Connection(answer))
    with pytest.raises(UserError, match=rf"registry at 10\.0\.0\.2:5000 does not answer for strata/ml-hub:1: {reason}"):
        client.digest("strata/ml-hub", "1")


def test_strange_certificate_is_not_tried_again(client: RegistryClient, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection(ssl.SSLCertVerificationError("not ours"))
    monkeypatch.setattr(client, "_connection", connection)
    with pytest.raises(UserError, match="not ours"):
        client.digest("strata/ml-hub", "1")
    assert connection.asked == 1


def test_what_is_not_there_is_no_error(client: RegistryClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_connection", Connection(404))
    assert client.digest("strata/ml-hub", "1") is None
