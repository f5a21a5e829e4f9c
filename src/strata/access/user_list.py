"""Users of a file, for `strata users add --from`."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from strata.access.users import Account, RequestRefused, add_user, list_users, problem_of, remove_user
from strata.errors import UserError
from strata.site_file.problems import printable, shorten

if TYPE_CHECKING:
    from strata.progress import Progress
    from strata.site.context import SiteContext

COLUMNS = ("name", "email", "tenants", "principal_investigator_of")
"""Of the file, as `strata users list --json` names them; the first is required."""
SHOWN = 20
"""Problems in one message."""


@dataclass(frozen=True)
class Row:
    """A user of the file, and the line that it is on."""

    line: int
    user: Account


def read_user_list(file: Path, tenants: Sequence[str], administered: Sequence[str]) -> list[Row]:
    """Reads a CSV file with a header; columns are `COLUMNS`, several tenants are separated by spaces.

    Args:
        file: in UTF-8.
        tenants: of every user, beside those of the line.
        administered: by every user, beside those of the line.

    Raises:
        UserError: the file cannot be read, has no users, or its columns are others.
    """
    try:
        with file.open(encoding="utf-8-sig", newline="") as content:
            reader = csv.DictReader(content, strict=True, skipinitialspace=True)
            header = [name.strip() for name in reader.fieldnames or ()]
            wrong = [name for name in header if name not in COLUMNS]
            if wrong or COLUMNS[0] not in header or len(set(header)) < len(header):
                raise UserError(
                    f"{file}: line 1: {shorten(','.join(header))} is not the header of a list of users",
                    fix=f"{COLUMNS[0]} and, where needed, {', '.join(COLUMNS[1:])}, separated by commas",
                )
            reader.fieldnames = header
            rows = list(_rows(file, reader, tenants, administered))
    except OSError as error:
        raise UserError(
            f"{file}: {error.strerror}", fix="name a readable CSV file", see="users-cannot-be-managed"
        ) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{file} is not a CSV file: {error}", fix="save the list as CSV, in UTF-8") from None
    if not rows:
        raise UserError(f"{file} lists no users", fix="a line for each, below the header")
    return rows


def _rows(
    file: Path, reader: csv.DictReader[str], tenants: Sequence[str], administered: Sequence[str]
) -> Iterator[Row]:
    for values in reader:
        if None in values or None in values.values():
            raise UserError(
                f"{file}: line {reader.line_num}: the number of values differs from the header's",
                fix="leave values empty between commas, and write values with commas in double quotes",
            )
        texts = {name: value.strip() for name, value in values.items()}
        own = {name: texts.get(name, "").split() for name in COLUMNS[2:]}
        user = Account(
            name=texts["name"],
            email=texts.get("email", ""),
            tenants=tuple(dict.fromkeys([*tenants, *own["tenants"]])),
            administered=tuple(dict.fromkeys([*administered, *own["principal_investigator_of"]])),
        )
        yield Row(reader.line_num, user)


def add_users(context: SiteContext, file: Path, rows: Sequence[Row], progress: Progress) -> dict[str, str]:
    """Adds all users of a file, or none.

    Args:
        context: the site.
        file: that the rows are from, for messages.
        rows: at least one.
        progress: receives status messages.

    Returns:
        The password for the first login, by name.

    Raises:
        UserError: rows are wrong, each named with its line; or the issuer refuses or does not respond. The users that
            were added before are removed again.
    """
    problems = list(_problems(context, rows)) or list(_taken(context, rows))
    if problems:
        lines = [f"{file}: no user was added, {len(problems)} of {len(rows)} cannot be", *problems[:SHOWN]]
        if len(problems) > SHOWN:
            lines.append(f"… and {len(problems) - SHOWN} more")
        raise UserError(
            "\n  ".join(lines), fix="correct these lines, then run the command again", see="users-cannot-be-managed"
        )
    passwords: dict[str, str] = {}
    try:
        for row in rows:
            progress.update(f"adding users: {len(passwords)} of {len(rows)}")
            passwords[row.user.name] = add_user(context, row.user)
    except BaseException as error:
        # what a request did that was interrupted or not answered is not known
        maybe = [*passwords, *([] if isinstance(error, RequestRefused) else [rows[len(passwords)].user.name])]
        try:
            _remove(context, maybe)
        except UserError as second:
            said = f"{getattr(error, 'message', 'interrupted')}; these users may have been added: {', '.join(maybe)}"
            fix = f"once {second.fix} shows the issuer running, `strata users remove {context.site.name}` each"
            raise UserError(said, fix=fix, see="users-cannot-be-managed") from error
        raise
    return passwords


def _problems(context: SiteContext, rows: Sequence[Row]) -> Iterator[str]:
    """Of each row by itself, and of two rows with one name or address."""
    seen: dict[str, int] = {}
    for row in rows:
        if problem := problem_of(context, row.user):
            yield f"line {row.line}: {printable(problem[0])}; fix: {problem[1]}"
        for value in filter(None, (row.user.name, row.user.email.lower())):
            if value in seen:
                yield f"line {row.line}: {printable(value)} is in line {seen[value]} too; fix: remove one"
            seen.setdefault(value, row.line)


def _taken(context: SiteContext, rows: Sequence[Row]) -> Iterator[str]:
    """Names and addresses of users that the site has."""
    users = list_users(context)
    names, addresses = {user["name"] for user in users}, Counter(str(user["email"]).lower() for user in users)
    for row in rows:
        if row.user.name in names:
            yield f"line {row.line}: user {row.user.name} exists already; fix: remove the line, or another name"
        elif row.user.email and addresses[row.user.email.lower()]:
            yield f"line {row.line}: {row.user.email} is the address of another user; fix: another address"


def _remove(context: SiteContext, names: Sequence[str]) -> None:
    present = {user["name"] for user in list_users(context)}
    for name in names:
        if name in present:
            remove_user(context, name)
