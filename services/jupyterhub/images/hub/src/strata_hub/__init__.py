"""Profiles by group and the tenant of a pod: what zero-to-jupyterhub's values cannot express."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Profile = Mapping[str, Any]
TENANT_LABEL = "strata.dev/tenant"
"""Of pods outside of the tenants' namespaces, for accounting."""


class ProfileError(Exception):
    """A user may start nothing; JupyterHub shows `jupyterhub_message`."""

    jupyterhub_message = "No profile is allowed for your account. Ask the administrators of this site."


def allowed(profiles: Sequence[Profile], access: Mapping[str, Profile], user: str, groups: set[str]) -> list[Profile]:
    """The profiles that a user may start, the first of which is the default.

    Args:
        profiles: as KubeSpawner takes them.
        access: slug to `users` and `groups` that may start it; a profile that is missing is open to every user.
        user: name of the user.
        groups: of the user, as the issuer's claim has them.
    """
    result = []
    for profile in profiles:
        limits = access.get(profile["slug"])
        if limits is None or user in limits["users"] or groups & set(limits["groups"]):
            result.append({**profile, "default": not result})
    return result


def profile_list(profiles: Sequence[Profile], access: Mapping[str, Profile]) -> Callable[[Any], list[Profile]]:
    """The function that KubeSpawner calls for its profile list, both for the form and when a server starts.

    Without a profile KubeSpawner would start a server with the chart's defaults, so a user without one is refused.
    """

    def of(spawner: Any) -> list[Profile]:
        groups = {group.name for group in spawner.user.groups}
        if usable := allowed(profiles, access, spawner.user.name, groups):
            return usable
        raise ProfileError

    return of


def tenant(
    tenants: Sequence[Mapping[str, str]], access: Mapping[str, Profile], profile: str | None, groups: set[str]
) -> str | None:
    """The tenant that a user's server is recorded for: the first of the profile's tenants that the user is a member
    of, else the first of the site's; None for a user without a tenant.

    Args:
        tenants: of the site, in its order: `name`, and the `group` of the members.
        access: as `allowed` takes it.
        profile: slug of the server's profile.
        groups: of the user, as the issuer's claim has them.
    """
    own = [tenant for tenant in tenants if tenant["group"] in groups]
    limits = access.get(profile or "", {"groups": ()})["groups"]
    # False is first
    return min(own, key=lambda tenant: tenant["group"] not in limits)["name"] if own else None


def server_tenant(
    tenants: Sequence[Mapping[str, str]], profiles: Sequence[Profile], access: Mapping[str, Profile]
) -> Callable[[Any], str | None]:
    """The function that returns the tenant of a spawner's server."""

    def of(spawner: Any) -> str | None:
        groups = {group.name for group in spawner.user.groups}
        default = next((profile["slug"] for profile in allowed(profiles, access, spawner.user.name, groups)), None)
        return tenant(tenants, access, spawner.user_options.get("profile") or default, groups)

    return of


def tenant_label(
    tenants: Sequence[Mapping[str, str]], profiles: Sequence[Profile], access: Mapping[str, Profile]
) -> Callable[[Any, Any], Any]:
    """The function that KubeSpawner calls with each pod before it creates it. Users cannot set the label."""
    tenant_of = server_tenant(tenants, profiles, access)

    def label(spawner: Any, pod: Any) -> Any:
        name = tenant_of(spawner)
        others = {key: value for key, value in (pod.metadata.labels or {}).items() if key != TENANT_LABEL}
        pod.metadata.labels = others | ({} if name is None else {TENANT_LABEL: name})
        return pod

    return label
