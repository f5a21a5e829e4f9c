"""`strata users`: what goes to the issuer's pod, and what the operator is reported."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from strata.access import kubectl, users
from strata.access.kubectl import Unanswered
from strata.errors import UserError
from strata.site.context import SiteContext


class Pod:
    """A substitute of kubectl."""

    def __init__(self) -> None:
        self.arguments: tuple[str, ...] = ()
        self.request: dict[str, Any] = {}
        self.answer: str | Exception = "{}"

    def __call__(self, _: SiteContext, *arguments: str, text: str, seconds: float) -> subprocess.CompletedProcess[str]:
        assert seconds > 0
        self.arguments, self.request = arguments, json.loads(text)
        if isinstance(self.answer, Exception):
            raise self.answer
        return subprocess.CompletedProcess(arguments, 0, self.answer, "error: no pods")


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch) -> Pod:
    fake = Pod()
    monkeypatch.setattr(kubectl, "run_kubectl", fake)
    return fake


def test_the_password_goes_by_standard_input(pod: Pod, context: SiteContext) -> None:
    password = users.add_user(context, users.Account("ada", "ada@example.org", administered=("research",)))
    assert len(password) >= 12
    assert not any(password in argument for argument in pod.arguments)
    assert pod.request == {
        "action": "add",
        "name": "ada",
        "password": password,
        "email": "ada@example.org",
        "tenants": [],
        "principal_investigator_of": ["research"],
    }
    assert users.invite_user(context, "ada") != password


@pytest.mark.parametrize(
    ("name", "email", "tenants", "said"),
    [
        ("Ada L", "", [], "cannot be the name of a user"),
        ("ada", "nowhere", [], "is not an e-mail address"),
        ("ada", "", ["law"], "has no tenant law"),
    ],
)
def test_an_error_is_reported_before_anything_is_asked(
    pod: Pod, context: SiteContext, name: str, email: str, tenants: list[str], said: str
) -> None:
    with pytest.raises(UserError, match=said) as refused:
        users.add_user(context, users.Account(name, email, tuple(tenants)))
    assert refused.value.fix
    assert not pod.arguments


@pytest.mark.parametrize("answer", ["", "Traceback", Unanswered("connection refused")])
def test_an_issuer_that_is_down_is_reported(pod: Pod, context: SiteContext, answer: str | Exception) -> None:
    pod.answer = answer
    with pytest.raises(UserError, match="the site's issuer does not respond"):
        users.list_users(context)


def test_what_the_issuer_refuses_is_reported(pod: Pod, context: SiteContext) -> None:
    pod.answer = '{"problem": "no user bob"}'
    with pytest.raises(UserError, match="no user bob"):
        users.remove_user(context, "bob")


def test_an_external_issuer_has_its_own_users(pod: Pod, context: SiteContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "issuer", lambda _: None)
    with pytest.raises(UserError, match="has no users of its own"):
        users.list_users(context)
    assert not pod.arguments
