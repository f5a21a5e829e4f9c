"""The administrator's entry in clouds.yaml."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from strata.errors import UserError
from strata.program import shown_plainly


@dataclass(frozen=True)
class Credentials:
    """What authenticates an administrator, apart from the project.

    Args:
        cloud: name of the entry in clouds.yaml.
        auth_url: of the identity service.
        user_name: of the administrator.
        user_domain_name: domain of the user.
        password: kept encrypted in the state.
        region: None for the cloud's only one.
        ca_file: certificate authority of the endpoints; None for the system's.
    """

    cloud: str
    auth_url: str
    user_name: str
    user_domain_name: str
    password: pulumi.Output[str]
    region: str | None
    ca_file: str | None


@shown_plainly
def read_credentials(cloud: str) -> Credentials:
    """Reads an entry of clouds.yaml as every OpenStack client does ($OS_CLIENT_CONFIG_FILE, then the usual places).

    Args:
        cloud: name of the entry.

    Raises:
        pulumi.RunError: there is no such entry, or it has no password.
    """
    # imported late: it costs 0.3 s that `strata validate` need not pay
    from openstack.config import OpenStackConfig
    from openstack.exceptions import ConfigException

    try:
        entry = OpenStackConfig().get_one(cloud=cloud, validate=False).config
    except ConfigException as error:
        raise UserError(
            f"clouds.yaml: there is no cloud {cloud!r} ({error})",
            fix=f"add an entry {cloud} of an administrator to ~/.config/openstack/clouds.yaml, "
            "or set OS_CLIENT_CONFIG_FILE to the file that has it",
        ) from error
    auth = entry.get("auth", {})
    for key in ("auth_url", "username", "password"):
        if not auth.get(key):
            raise UserError(
                f"clouds.yaml: clouds.{cloud}.auth.{key} is missing",
                fix="the cloud layer creates a project and works inside it, "
                "which takes an administrator's user name and password",
            )
    return Credentials(
        cloud=cloud,
        auth_url=str(auth["auth_url"]),
        user_name=str(auth["username"]),
        user_domain_name=str(auth.get("user_domain_name") or "Default"),
        password=pulumi.Output.secret(str(auth["password"])),
        region=entry.get("region_name") or None,
        ca_file=entry.get("cacert") or None,
    )
