"""Users of the realm: listed, added, invited, removed."""

from __future__ import annotations

from collections.abc import Iterable

from keycloak_realm import groups
from keycloak_realm.api import Api, Json
from keycloak_realm.desired import Desired, Person

TENANTS = f"/{groups.ROOT}/"


class UserProblem(Exception):
    """What was requested cannot be done; gives the reason."""


def listed(api: Api) -> list[Json]:
    """Every user, by name, with tenants and whether a password is set."""
    users = []
    for user in api.get("/users", max=100_000, briefRepresentation="true"):
        if user["username"].startswith("service-account-"):
            continue
        paths = [group["path"] for group in api.get(f"/users/{user['id']}/groups", max=1000)]
        admin = f"/{groups.ADMINISTRATORS}"
        credentials = api.get(f"/users/{user['id']}/credentials")
        users.append(
            {
                "name": user["username"],
                "email": user.get("email", ""),
                "tenants": _tenants(path for path in paths if not path.endswith(admin)),
                "principal_investigator_of": _tenants(p.removesuffix(admin) for p in paths if p.endswith(admin)),
                "enabled": user["enabled"],
                "password": any(credential["type"] == "password" for credential in credentials),
            }
        )
    return sorted(users, key=lambda user: str(user["name"]))


def without_group(api: Api, desired: Desired) -> list[str]:
    """Names of users who may log in and are in no group, such as former members of tenants; few requests."""
    root = groups.by_path(api, groups.ROOT)
    tenants = api.get(f"/groups/{root['id']}/children", max=10_000) if root else []
    known = set(desired.people)
    for tenant in tenants:
        known |= {member["username"] for member in api.get(f"/groups/{tenant['id']}/members", max=100_000)}
    return sorted(
        user["username"]
        for user in api.get("/users", enabled="true", max=100_000, briefRepresentation="true")
        if user["username"] not in known
        and not user["username"].startswith("service-account-")
        and not api.get(f"/users/{user['id']}/groups", max=1)
    )


def _tenants(paths: Iterable[str]) -> list[str]:
    return sorted(path.removeprefix(TENANTS) for path in paths if path.startswith(TENANTS))


def add(api: Api, person: Person, tenants: list[str], administered: list[str], password: str) -> None:
    """Makes a user with a password for one login.

    Raises:
        UserProblem: the name is taken, or a tenant is unknown.
    """
    if groups.user(api, person.name) is not None:
        raise UserProblem(f"user {person.name} exists already")
    if person.email and api.get("/users", email=person.email, exact="true"):
        raise UserProblem(f"{person.email} is the address of another user")
    paths = [f"{groups.ROOT}/{name}" for name in dict.fromkeys([*tenants, *administered])]
    paths += [f"{groups.ROOT}/{name}/{groups.ADMINISTRATORS}" for name in administered]
    memberships = []
    for path in paths:
        group = groups.by_path(api, path)
        if group is None:
            raise UserProblem(f"no tenant {path.split('/')[1]}")
        memberships.append(group)
    identifier = api.post("/users", groups.new_user(person))
    for group in memberships:
        api.put(f"/users/{identifier}/groups/{group['id']}")
    _set_password(api, identifier, password)


def invite(api: Api, name: str, password: str) -> None:
    """Gives a user a password for one login, in place of any before; ends the user's sessions.

    Raises:
        UserProblem: there is no such user.
    """
    user = _known(api, name)
    _set_password(api, user["id"], password)
    api.post(f"/users/{user['id']}/logout", {})


def disable(api: Api, desired: Desired, name: str, *, dry_run: bool) -> None:
    """Refuses logins of a user who leaves, and ends the user's sessions; the account stays until the rest has ended.
    Dry, only whether that can be.

    Raises:
        UserProblem: there is no such user, or the site file names it.
    """
    user = _leaving(api, desired, name)
    if not dry_run:
        api.put(f"/users/{user['id']}", user | {"enabled": False})
        api.post(f"/users/{user['id']}/logout", {})


def remove(api: Api, desired: Desired, name: str) -> None:
    """Removes a user. Errors as of `disable`."""
    api.delete(f"/users/{_leaving(api, desired, name)['id']}")


def _leaving(api: Api, desired: Desired, name: str) -> Json:
    user = _known(api, name)
    if name in desired.people:
        raise UserProblem(
            f"the site file names {name}: remove the name from platform.tenants, and run `strata up` first"
        )
    return user


def _known(api: Api, name: str) -> Json:
    user = groups.user(api, name)
    if user is None or name.startswith("service-account-"):
        raise UserProblem(f"no user {name}")
    return user


def _set_password(api: Api, identifier: str, password: str) -> None:
    body = {"type": "password", "value": password, "temporary": True}
    api.put(f"/users/{identifier}/reset-password", body)
