"""`strata users add --from`: all users of a file, or none, and each wrong line by its number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strata.access import user_list, users
from strata.access.user_list import add_users, read_user_list
from strata.access.users import Account
from strata.errors import UserError
from strata.progress import Silent
from strata.site.context import SiteContext


class Issuer:
    """An issuer with one user; refuses a name."""

    def __init__(self) -> None:
        self.names = ["old"]
        self.requests = 0
        self.refused: str | None = None
        self.error: BaseException = UserError("the site's issuer does not respond: gone")
        self.removable = True

    def __call__(self, _: SiteContext, request: dict[str, Any]) -> dict[str, Any]:
        self.requests += 1
        name = request.get("name", "")
        if request["action"] == "add":
            self.names.append(name)
            if name == self.refused:
                raise self.error
        elif request["action"] == "remove":
            self.names.remove(name)
        elif not self.removable and len(self.names) > 1:
            raise UserError("the site's issuer does not respond: still gone", fix="strata status lab")
        listed = [{"name": name, "email": f"{name}@example.org"} for name in self.names]
        return {"users": listed} if request["action"] == "list" else {}


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Issuer:
    fake = Issuer()
    monkeypatch.setattr(users, "_request", fake)
    return fake


def written(tmp_path: Path, text: str | bytes) -> Path:
    file = tmp_path / "users.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def test_columns_and_options_are_joined(tmp_path: Path) -> None:
    text = "\ufeffname, email, tenants\r\nada,ada@example.org,teaching research\r\n\r\nbob,,\r\n"
    rows = read_user_list(written(tmp_path, text), ["research"], [])
    assert [(row.line, row.user) for row in rows] == [
        (2, Account("ada", "ada@example.org", ("research", "teaching"))),
        (4, Account("bob", "", ("research",))),
    ]


def test_all_are_added_each_with_a_password(issuer: Issuer, context: SiteContext, tmp_path: Path) -> None:
    file = written(tmp_path, "name\n" + "\n".join(f"user-{i}" for i in range(20)))
    passwords = add_users(context, file, read_user_list(file, ["research"], []), Silent())
    assert list(passwords) == issuer.names[1:]
    assert len(set(passwords.values())) == 20


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: '' is not the header"),
        ("ada\nbob\n", "line 1: 'ada' is not the header"),
        ("name;email\nada;a@example.org\n", "line 1: 'name;email' is not the header"),
        ("email\na@example.org\n", "is not the header"),
        ("name,name\nada,bob\n", "is not the header"),
        ("name\n", "lists no users"),
        ("name,email\nada\n", "line 2: the number of values differs"),
        ("name\nada\nbob,law\n", "line 3: the number of values differs"),
        ('name\n"ada\n', "is not a CSV file"),
        (b"name\n\xff\xfe\n", "is not a CSV file"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, text: str | bytes, said: str) -> None:
    with pytest.raises(UserError) as refused:
        read_user_list(written(tmp_path, text), [], [])
    assert said in refused.value.message
    assert str(tmp_path / "users.csv") in refused.value.message
    assert refused.value.fix


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"users.csv: No such file"):
        read_user_list(tmp_path / "users.csv", [], [])


def test_every_wrong_line_is_named_and_no_one_is_added(issuer: Issuer, context: SiteContext, tmp_path: Path) -> None:
    lines = ["name,email,tenants", "ada,,research", "Bob,,", "carol,nowhere,", "dan,,law", "ada,,", "erin,E@x.org,"]
    lines += ["fay,e@x.org,", "gil\x1b[2J,,"]
    file = written(tmp_path, "\n".join(lines))
    with pytest.raises(UserError) as refused:
        add_users(context, file, read_user_list(file, [], []), Silent())
    said = refused.value.message
    assert "no user was added, 6 of 8 cannot be" in said
    for part in (
        "line 3: 'Bob' cannot be the name of a user",
        "line 4: 'nowhere' is not an e-mail address",
        "line 5: site lab has no tenant law",
        "line 6: ada is in line 2 too",
        "line 8: e@x.org is in line 7 too",
        "line 9: ",
    ):
        assert part in said
    assert "\x1b" not in said
    assert issuer.requests == 0


def test_users_that_exist_are_named_and_no_one_is_added(issuer: Issuer, context: SiteContext, tmp_path: Path) -> None:
    file = written(tmp_path, "name,email\nada,\nold,\nbob,OLD@example.org\n")
    with pytest.raises(UserError) as refused:
        add_users(context, file, read_user_list(file, [], []), Silent())
    assert "line 3: user old exists already" in refused.value.message
    assert "line 4: OLD@example.org is the address of another user" in refused.value.message
    assert issuer.names == ["old"]


def test_only_the_first_problems_are_shown(issuer: Issuer, context: SiteContext, tmp_path: Path) -> None:
    file = written(tmp_path, "name\n" + "X\n" * 100)
    with pytest.raises(UserError) as refused:
        add_users(context, file, read_user_list(file, [], []), Silent())
    assert len(refused.value.message.splitlines()) == user_list.SHOWN + 2
    assert issuer.requests == 0


@pytest.mark.parametrize("error", [UserError("gone"), KeyboardInterrupt()])
def test_a_failure_on_the_way_adds_no_one(
    issuer: Issuer, context: SiteContext, tmp_path: Path, error: BaseException
) -> None:
    """The user whose request failed may have been made."""
    file = written(tmp_path, "name\nada\nbob\ncarol\n")
    issuer.refused, issuer.error = "bob", error
    with pytest.raises(type(error)):
        add_users(context, file, read_user_list(file, [], []), Silent())
    assert issuer.names == ["old"]


def test_a_user_whom_another_added_meanwhile_stays(issuer: Issuer, context: SiteContext, tmp_path: Path) -> None:
    file = written(tmp_path, "name\nada\nbob\n")
    issuer.refused, issuer.error = "bob", users.RequestRefused("user bob exists already")
    with pytest.raises(UserError, match="bob exists already"):
        add_users(context, file, read_user_list(file, [], []), Silent())
    assert issuer.names == ["old", "bob"]


def test_users_who_cannot_be_removed_again_are_named(issuer: Issuer, context: SiteContext, tmp_path: Path) -> None:
    file = written(tmp_path, "name\nada\nbob\ncarol\n")
    issuer.refused, issuer.removable = "bob", False
    with pytest.raises(UserError, match="may have been added: ada, bob"):
        add_users(context, file, read_user_list(file, [], []), Silent())
