"""Looks for the entries of clouds.yaml before OpenStack is asked for anything."""

from __future__ import annotations

from strata.cloud.clouds_file import Credentials, entries
from strata.errors import UserError
from strata.models.cloud import Cloud
from strata.pulumi_program import without_traceback


@without_traceback
def required_entries(site: str, cloud: Cloud) -> Credentials:
    """The entries that a site needs, looked for as every OpenStack client does ($OS_CLIENT_CONFIG_FILE, then the
    usual places).

    Raises:
        pulumi.RunError: one of them is missing.
    """
    from openstack.config import OpenStackConfig  # noqa: PLC0415  # loads openstack: 0.2 s

    needed = entries(site, cloud)
    known = OpenStackConfig().get_cloud_names()
    if cloud.administrator:
        fixes = {
            needed.administrator: "add the entry of an administrator",
            needed.project: f"add a copy of the entry {needed.administrator} with `project_name: {cloud.project.name}` "
            "(the project need not exist yet)",
        }
    else:
        fixes = {
            needed.project: f"add an entry of the project {cloud.project.name}, an application credential at best,"
        }
    for entry, fix in fixes.items():
        if entry not in known:
            raise UserError(
                f"clouds.yaml: there is no cloud {entry!r}",
                fix=f"{fix} to ~/.config/openstack/clouds.yaml, or set OS_CLIENT_CONFIG_FILE to the file that has it",
            )
    return needed
