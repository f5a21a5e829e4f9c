"""Groups of tenants and their members, as the site file names them."""

from __future__ import annotations

from keycloak_realm.api import Api, Json, Refused
from keycloak_realm.desired import Desired, Person

ROOT = "tenants"
ADMINISTRATORS = "admins"
FREE = "{id}@moved.invalid"
"""Address of a user while others get the one before."""
NAMED = "strata.members"
"""Attribute of a group: its members in the site file; others stay when the site file changes."""


def reconcile(api: Api, desired: Desired) -> list[str]:
    """A group for each tenant; who is named is in it, who is named no longer is not.

    Returns:
        what Keycloak refused of single users; they are in no group that they were not in before.
    """
    users, problems = _users(api, desired)
    root = by_path(api, ROOT) or {"id": api.post("/groups", {"name": ROOT})}
    for tenant in desired.tenants:
        administrators = {person.name for person in tenant.administrators}
        group = _child(api, root, f"{ROOT}/{tenant.name}")
        _members(api, group, {person.name for person in tenant.members} | administrators, users)
        _members(api, _child(api, group, f"{ROOT}/{tenant.name}/{ADMINISTRATORS}"), administrators, users)
    names = {tenant.name for tenant in desired.tenants}
    for group in api.get(f"/groups/{root['id']}/children", max=10_000):
        if group["name"] not in names:
            api.delete(f"/groups/{group['id']}")
    return problems


def by_path(api: Api, path: str) -> Json | None:
    """The group at a path without its first slash, None where there is none."""
    try:
        return api.get(f"/group-by-path/{path}")
    except Refused as error:
        if error.status != 404:
            raise
        return None


def user(api: Api, name: str) -> Json | None:
    """The user of that name, None where there is none."""
    users = api.get("/users", username=name, exact="true")
    return users[0] if users else None


def _users(api: Api, desired: Desired) -> tuple[dict[str, str], list[str]]:
    """Ids by name of the users, made without a password where there are none; what Keycloak refused."""
    live = {name: account for name in desired.people if (account := user(api, name)) is not None}
    stale = {
        name: user
        for name, user in live.items()
        if (email := desired.people[name].email) and email.lower() != user.get("email", "")
    }
    emails = {person.email.lower() for person in desired.people.values()}
    ids, problems = {}, []
    # users may have each other's new address: all of these are free before one is given
    steps = [(name, FREE.format(id=user["id"])) for name, user in stale.items() if user.get("email") in emails]
    steps += [(name, desired.people[name].email) for name in desired.people]
    for name, email in steps:
        try:
            if name not in live:
                ids[name] = api.post("/users", new_user(desired.people[name]))
                continue
            ids[name] = str(live[name]["id"])
            if name in stale:
                api.put(f"/users/{ids[name]}", live[name] | {"email": email, "emailVerified": True})
        except Refused as error:
            if error.status not in (400, 409):
                raise
            problems.append(f"user {name}: {error}")
    return ids, problems


def new_user(person: Person) -> Json:
    """A user as Keycloak takes it."""
    body = {"username": person.name, "enabled": True}
    return body | ({"email": person.email, "emailVerified": True} if person.email else {})


def _child(api: Api, parent: Json, path: str) -> Json:
    group = by_path(api, path)
    if group is None:
        api.post(f"/groups/{parent['id']}/children", {"name": path.rpartition("/")[2]})
        group = by_path(api, path)
    return group


def _members(api: Api, group: Json, desired: set[str], users: dict[str, str]) -> None:
    attributes = group.get("attributes", {})
    before = set(attributes.get(NAMED, []))
    present = {member["username"]: member["id"] for member in api.get(f"/groups/{group['id']}/members", max=100_000)}
    for name in sorted((desired & users.keys()) - present.keys()):
        api.put(f"/users/{users[name]}/groups/{group['id']}")
    for name in sorted((before - desired) & present.keys()):
        api.delete(f"/users/{present[name]}/groups/{group['id']}")
    if before != desired:
        body = {"name": group["name"], "attributes": {**attributes, NAMED: sorted(desired)}}
        api.put(f"/groups/{group['id']}", body)
