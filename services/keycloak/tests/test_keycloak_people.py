"""Users of the site file reach the issuer, one by one, against a small fake of Keycloak's Admin API."""

# ruff: noqa: PLC0415  # a fixture puts the image's package on the path

from __future__ import annotations

import itertools
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strata_services.keycloak.service import SERVICE

LOCAL = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*@([a-z0-9](-*[a-z0-9])*\.)+[a-z]+")


@pytest.fixture(autouse=True)
def _program(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(SERVICE.folder / "src"))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "keycloak_realm"]:
        del sys.modules[name]


class Keycloak:
    """Users and groups as the Admin API has them: addresses are stored in lower case, and each belongs to one user."""

    def __init__(self) -> None:
        self.users: dict[str, dict[str, Any]] = {}
        self.groups: dict[str, dict[str, Any]] = {}
        self.members: dict[str, set[str]] = {}
        self.numbers = itertools.count(1)
        self.changes: list[str] = []
        self.adopted = False

    def get(self, path: str, **query: Any) -> Any:
        _, kind, *rest = path.split("/")
        if kind == "users":
            return [dict(user) for user in self.users.values() if user["username"] == query["username"]]
        if kind == "group-by-path":
            group = next((group for group in self.groups.values() if group["path"] == "/".join(rest)), None)
            return group if group is not None else self.refuse(404, path)
        if rest[1] == "members":
            return [self.users[user] for user in self.members[rest[0]]]
        parent = self.groups[rest[0]]["path"]
        return [group for group in self.groups.values() if group["path"].rpartition("/")[0] == parent]

    def post(self, path: str, body: dict[str, Any]) -> str:
        self.changes.append(f"POST {path}")
        identifier = f"id-{next(self.numbers)}"
        if path == "/users":
            self.store(identifier, {**body, "id": identifier})
            return identifier
        _, _, *parent = path.split("/")
        prefix = f"{self.groups[parent[0]]['path']}/" if parent else ""
        self.groups[identifier] = {"id": identifier, "path": prefix + body["name"], **body}
        self.members[identifier] = set()
        return identifier

    def put(self, path: str, body: Any = None) -> None:
        self.changes.append(f"PUT {path}")
        _, kind, identifier, *rest = path.split("/")
        if kind == "groups":
            self.groups[identifier] |= body
        elif rest:
            self.members[rest[1]].add(identifier)
        else:
            self.store(identifier, body)

    def delete(self, path: str) -> None:
        self.changes.append(f"DELETE {path}")
        _, kind, identifier, *rest = path.split("/")
        if kind == "users":
            self.members[rest[1]].discard(identifier)
        else:
            del self.groups[identifier]

    def adopt_secret(self) -> None:
        self.adopted = True

    def store(self, identifier: str, body: dict[str, Any]) -> None:
        email = body.get("email", "").lower()
        if len(body["username"]) < 3 or (email and LOCAL.fullmatch(email) is None):
            self.refuse(400, "error-invalid-length or error-invalid-email")
        if email and any(user.get("email") == email for key, user in self.users.items() if key != identifier):
            self.refuse(409, "User exists with same email")
        self.users[identifier] = body | ({"email": email} if email else {})

    def refuse(self, status: int, message: str) -> Any:
        from keycloak_realm.api import Refused  # type: ignore[import-not-found]  # put on the path above

        raise Refused(status, f"{status} {message}")

    def addresses(self) -> dict[str, str]:
        return {user["username"]: user.get("email", "") for user in self.users.values()}

    def tenant(self, path: str) -> set[str]:
        group = next(group for group in self.groups.values() if group["path"] == path)
        return {self.users[user]["username"] for user in self.members[group["id"]]}


@pytest.fixture
def keycloak() -> Keycloak:
    return Keycloak()


def desired(**people: str) -> Any:
    """A realm whose tenant research has these members with these addresses, ada as its principal investigator."""
    from keycloak_realm.desired import Desired, Person, Tenant  # type: ignore[import-not-found]  # put on the path above

    members = tuple(Person(name, email) for name, email in people.items())
    return Desired("strata", "lab", (), (Tenant("research", members, (Person("ada"),)),), ())


def reconcile(keycloak: Keycloak, **people: str) -> list[str]:
    from keycloak_realm import groups  # type: ignore[import-not-found]  # put on the path above

    return list(groups.reconcile(keycloak, desired(**people)))


def test_a_second_run_changes_nothing(keycloak: Keycloak) -> None:
    people = {"carol": "Carol@Example.org", "dave": ""}
    assert reconcile(keycloak, **people) == []
    assert keycloak.tenant("tenants/research") == {"ada", "carol", "dave"}
    assert keycloak.tenant("tenants/research/admins") == {"ada"}
    keycloak.changes.clear()
    assert reconcile(keycloak, **people) == []
    assert keycloak.changes == []


@pytest.mark.parametrize(
    ("name", "email", "status"),
    [("mallory", "CAROL@example.org", 409), ("mallory", "a..b@-x.y", 400), ("al", "al@example.org", 400)],
)
def test_a_user_who_is_refused_stops_no_other(keycloak: Keycloak, name: str, email: str, status: int) -> None:
    people = {"carol": "carol@example.org", name: email, "zoe": "zoe@example.org"}
    (problem,) = reconcile(keycloak, **people)
    assert problem.startswith(f"user {name}: {status} ")
    assert keycloak.tenant("tenants/research") == {"ada", "carol", "zoe"}
    assert keycloak.addresses() == {"ada": "", "carol": "carol@example.org", "zoe": "zoe@example.org"}
    assert reconcile(keycloak, **people | {name: "own@example.org"}) == ([problem] if name == "al" else [])
    assert ("mallory" in keycloak.tenant("tenants/research")) == (name == "mallory")


def test_an_address_changed_in_the_file_reaches_the_issuer(keycloak: Keycloak) -> None:
    reconcile(keycloak, carol="carol@example.org", dave="", erin="erin@example.org")
    assert reconcile(keycloak, carol="c.new@example.org", dave="dave@example.org", erin="") == []
    assert keycloak.addresses() == {
        "ada": "",
        "carol": "c.new@example.org",
        "dave": "dave@example.org",
        "erin": "erin@example.org",
    }
    carol = next(user for user in keycloak.users.values() if user["username"] == "carol")
    assert (carol["enabled"], carol["emailVerified"]) == (True, True)


def test_addresses_can_be_exchanged_and_passed_on(keycloak: Keycloak) -> None:
    reconcile(keycloak, carol="one@example.org", dave="two@example.org", erin="three@example.org")
    assert reconcile(keycloak, carol="two@example.org", dave="one@example.org", erin="new@example.org") == []
    assert reconcile(keycloak, carol="one@example.org", dave="three@example.org", erin="two@example.org") == []
    expected = {"carol": "one@example.org", "dave": "three@example.org", "erin": "two@example.org"}
    assert keycloak.addresses() == {"ada": "", **expected}
    assert (
        reconcile(
            keycloak, carol="x@example.org", dave="three@example.org", erin="e@example.org", gil="two@example.org"
        )
        == []
    )
    assert keycloak.addresses()["gil"] == "two@example.org"


def test_an_address_of_a_user_outside_of_the_file_is_refused_and_the_old_one_stays(keycloak: Keycloak) -> None:
    reconcile(keycloak, carol="carol@example.org")
    keycloak.post("/users", {"username": "guest", "enabled": True, "email": "guest@example.org"})
    (problem,) = reconcile(keycloak, carol="guest@example.org")
    assert problem.startswith("user carol: 409 ")
    assert keycloak.addresses()["carol"] == "carol@example.org"


def test_a_refused_user_holds_up_neither_the_secret_nor_readiness(
    keycloak: Keycloak, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from keycloak_realm import __main__ as program

    for name in ("_realm", "_keys", "_profile", "_scopes", "_clients"):
        monkeypatch.setattr(f"keycloak_realm.reconcile.{name}", lambda *_: None)
    rounds = iter((None, None))
    monkeypatch.setattr(time, "sleep", lambda _: next(rounds))
    with pytest.raises(StopIteration):
        program.keep(keycloak, desired(al="", zoe=""), tmp_path / "ready")
    assert keycloak.adopted
    assert (tmp_path / "ready").exists()
    said = capsys.readouterr().err
    assert said.count("realm strata is as in the site file") == 1
    assert "but for:\nuser al: 400" in said
