"""Users of a site, at its own issuer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from strata.access.kubectl import Unanswered, ask_program
from strata.catalogue.issuer import UserProgram
from strata.catalogue.site_services import issuer
from strata.errors import UserError
from strata.models.types import EMAIL_PATTERN, USER_PATTERN, USER_RULE
from strata.site.context import SiteContext
from strata.site.secrets.store import new_secret

SECONDS = 120.0
"""For one request: the issuer may be at its first start."""
SUMMARY_SECONDS = 20.0
"""For what `up` only mentions."""
PASSWORD_LENGTH = 16


def list_users(context: SiteContext) -> list[dict[str, Any]]:
    """Every user, by name, as `strata.catalogue.issuer.UserProgram` has them. Errors as of `add_user`."""
    return list(_request(context, {"action": "list"})["users"])


def without_group(context: SiteContext) -> list[str]:
    """Names of users who may log in and are in no group, such as former members. Errors as of `add_user`."""
    return list(_request(context, {"action": "without_group"}, SUMMARY_SECONDS)["names"])


class RequestRefused(UserError):
    """The issuer did not do what was requested, and changed nothing."""


@dataclass(frozen=True)
class Account:
    """A user to be added.

    Args:
        name: that the user logs in with.
        email: the user's address; empty: none.
        tenants: that the user is a member of.
        administered: tenants that the user is a principal investigator of.
    """

    name: str
    email: str = ""
    tenants: tuple[str, ...] = ()
    administered: tuple[str, ...] = ()


def problem_of(context: SiteContext, user: Account) -> tuple[str, str] | None:
    """Why a user cannot be one of the site, and the fix; None for no reason."""
    if re.fullmatch(USER_PATTERN[1:-1], user.name) is None:
        return f"{user.name!r} cannot be the name of a user: it {USER_RULE}", "for instance ada"
    if user.email and re.fullmatch(EMAIL_PATTERN[1:-1], user.email) is None:
        return f"{user.email!r} is not an e-mail address", "for instance ada@example.org"
    known = [tenant.name for tenant in context.site.platform.tenants]
    for tenant in (*user.tenants, *user.administered):
        if tenant not in known:
            names = ", ".join(known) or "it has none: add one to platform.tenants"
            return f"site {context.site.name} has no tenant {tenant}", names
    return None


def add_user(context: SiteContext, user: Account) -> str:
    """Adds a user.

    Returns:
        The password for the first login, at which the user sets another.

    Raises:
        UserError: the site has no issuer of its own, it does not respond, or it refuses.
    """
    if problem := problem_of(context, user):
        raise UserError(problem[0], fix=problem[1], see="users-cannot-be-managed")
    password = new_secret()[:PASSWORD_LENGTH]
    groups = {"tenants": list(user.tenants), "principal_investigator_of": list(user.administered)}
    _request(context, {"action": "add", "name": user.name, "password": password, "email": user.email, **groups})
    return password


def invite_user(context: SiteContext, name: str) -> str:
    """Gives a user a new password for one login. Returns and errors as of `add_user`."""
    password = new_secret()[:PASSWORD_LENGTH]
    _request(context, {"action": "invite", "name": name, "password": password})
    return password


def disable_user(context: SiteContext, name: str, *, dry_run: bool) -> None:
    """Refuses logins of a user, and ends the issuer's sessions; dry, only whether that can be. Errors as of
    `add_user`."""
    _request(context, {"action": "disable", "name": name, "dry_run": dry_run})


def remove_user(context: SiteContext, name: str) -> None:
    """Removes a user from the issuer. Errors as of `add_user`."""
    _request(context, {"action": "remove", "name": name})


def _program(context: SiteContext) -> UserProgram:
    own = issuer(context.site)
    if own is None or own.users is None:
        raise UserError(
            f"site {context.site.name} has no users of its own",
            fix="manage them where platform.services.external_issuer has them",
            see="users-cannot-be-managed",
        )
    return own.users


def _request(context: SiteContext, request: dict[str, Any], seconds: float = SECONDS) -> dict[str, Any]:
    program = _program(context)
    target = (f"--namespace={program.namespace}", f"deployment/{program.deployment}")
    try:
        answer = ask_program(context, *target, command=program.command, request=request, seconds=seconds)
    except Unanswered as error:
        raise _unanswered(context, str(error)) from None
    if problem := answer.get("problem"):
        raise RequestRefused(
            str(problem), fix=f"`strata users list {context.site.name}` has the users", see="users-cannot-be-managed"
        )
    return answer


def _unanswered(context: SiteContext, said: str) -> UserError:
    return UserError(
        f"the site's issuer does not respond: {said}",
        fix=f"strata status {context.site.name}",
        see="users-cannot-be-managed",
    )
