"""Names of the entries of clouds.yaml: the administrator's, and the same one scoped to the site's project.

Without an administrator's rights both are one: a member's, or an application credential of the project.

The provider is given entries by name, never a password, so none reaches Pulumi's state. A provider without an entry
would not do: OS_CLOUD, which `strata env` exports, then silently takes its place.
"""

from __future__ import annotations

from dataclasses import dataclass

from strata.models.cloud import Cloud


@dataclass(frozen=True)
class Credentials:
    """Names of the two entries.

    Args:
        administrator: creates the project, flavors, images and aggregates.
        project: the same user inside the site's project.
    """

    administrator: str
    project: str


def entries(site: str, cloud: Cloud) -> Credentials:
    """The entries that a site needs.

    Args:
        site: its name.
        cloud: its cloud.
    """
    entry = cloud.credentials or site
    return Credentials(entry, f"{entry}-{cloud.project.name}" if cloud.administrator else entry)
