"""Who may start which profile: what zero-to-jupyterhub's values cannot express."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Profile = Mapping[str, Any]


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
    found = []
    for profile in profiles:
        limits = access.get(profile["slug"])
        if limits is None or user in limits["users"] or groups & set(limits["groups"]):
            found.append({**profile, "default": not found})
    return found


def profile_list(profiles: Sequence[Profile], access: Mapping[str, Profile]) -> Callable[[Any], list[Profile]]:
    """The function that KubeSpawner calls for its profile list, both for the form and when a server starts.

    Without a profile KubeSpawner would start a server with the chart's defaults, so a user without one is refused.
    """

    def of(spawner: Any) -> list[Profile]:
        groups = {group.name for group in spawner.user.groups}
        if found := allowed(profiles, access, spawner.user.name, groups):
            return found
        raise ProfileError

    return of
