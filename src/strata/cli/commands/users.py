"""List, add, invite and remove the site's users."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from strata.access.leaving import leave, still_valid
from strata.access.user_list import add_users, read_user_list
from strata.access.users import Account, add_user, invite_user, list_users
from strata.catalogue.site_services import issuer
from strata.cli.arguments import JsonOption, SiteArgument, YesOption, complete_tenant
from strata.cli.context import load_context
from strata.cli.output import print_json
from strata.errors import UserError
from strata.site.context import SiteContext

app = typer.Typer(help=__doc__, no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Login name of the user.")]


@app.command("list")
def list_(site: SiteArgument, as_json: JsonOption = False) -> None:
    """List users with their tenants and roles."""
    users = list_users(load_context(site))
    if as_json:
        print_json(users)
        return
    table = Table("name", "e-mail", "tenants", "principal investigator of", "state", box=None)
    for user in users:
        state = "disabled" if not user["enabled"] else "active" if user["password"] else "not invited"
        columns = (", ".join(user["tenants"]), ", ".join(user["principal_investigator_of"]))
        table.add_row(user["name"], user["email"], *columns, state)
    Console().print(table)
    if former := [user["name"] for user in users if not user["tenants"]]:
        said = (
            f"in no tenant: {', '.join(former)}; `strata users remove {site} NAME` ends what is left of a former member"
        )
        Console(stderr=True).print(said, highlight=False, soft_wrap=True)


@app.command()
def add(
    site: SiteArgument,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Login name of the user.", show_default="those of --from"),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="CSV file of users, who are all added or none: name, email, tenants, principal_investigator_of.",
        ),
    ] = None,
    email: Annotated[str, typer.Option("--email", help="E-mail address of the user.", show_default="none")] = "",
    tenants: Annotated[
        list[str] | None,
        typer.Option(
            "--tenant",
            metavar="TENANT",
            help="Tenant of which the user is a member. Repeatable.",
            autocompletion=complete_tenant,
        ),
    ] = None,
    administered: Annotated[
        list[str] | None,
        typer.Option(
            "--principal-investigator",
            metavar="TENANT",
            help="Tenant that the user administers. Repeatable.",
            autocompletion=complete_tenant,
        ),
    ] = None,
) -> None:
    """Add users. Prints one-time passwords for the first login; with --from, names and passwords as CSV."""
    context = load_context(site)
    given = (tuple(tenants or ()), tuple(administered or ()))
    if file is None:
        if name is None:
            raise UserError("no user is named", fix="a NAME, or --from FILE for several")
        _print_password(context, name, add_user(context, Account(name, email, *given)))
        return
    if name is not None or email:
        raise UserError("--from FILE has names and addresses of its own", fix="leave out NAME and --email")
    rows = read_user_list(file, *given)
    console = Console(stderr=True)
    with console.status("adding users") as status:
        passwords = add_users(context, file, rows, status)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("name", "password"))
    writer.writerows(passwords.items())
    said = f"{len(passwords)} users were added; each logs in once with the password{_where(context)}, and sets another"
    console.print(f"{said}; they are shown only now", highlight=False, soft_wrap=True)


@app.command()
def invite(site: SiteArgument, name: NameArgument) -> None:
    """Set a one-time password for a user, in place of any other, and print it."""
    context = load_context(site)
    _print_password(context, name, invite_user(context, name))


@app.command()
def remove(
    site: SiteArgument,
    name: NameArgument,
    keep_home: Annotated[
        bool,
        typer.Option(
            "--keep-home/--archive-home", help="Keep the home for the next user of that name, or move it aside."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would end, and change nothing.")] = False,
    yes: YesOption = False,
) -> None:
    """Remove a user. Ends sessions, tokens, the server and batch jobs, and moves the home aside."""
    context = load_context(site)
    if not yes and not dry_run:
        typer.confirm(f"Remove the user {name} of site {context.site.name}?", abort=True)
    console = Console(stderr=True)
    with console.status(f"removing {name}") as status:
        ended = leave(context, name, status, keep_home=keep_home, dry_run=dry_run)
    for text in ended:
        console.print(f"{'would end' if dry_run else 'ended'}: {text}", highlight=False, soft_wrap=True)
    if known := still_valid(context):
        console.print(f"still valid: {known}", highlight=False, soft_wrap=True)


def _print_password(context: SiteContext, name: str, password: str) -> None:
    """The password alone on standard output, and who it is for on the other."""
    print(password)
    said = f"{name} logs in once with this password{_where(context)}, and sets another; it is shown only now"
    Console(stderr=True).print(said, highlight=False, soft_wrap=True)


def _where(context: SiteContext) -> str:

    own = issuer(context.site)
    return f" at {own.url}/account or any service" if own else ""
