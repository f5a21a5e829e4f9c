"""The one place that looks at `cloud.deployment`."""

from __future__ import annotations

from strata.models import Site
from strata.provider.base import Provider
from strata.provider.existing import ExistingCloudProvider
from strata.provider.machines import MachinesProvider


def provider_of(site: Site) -> Provider:
    """The provider of a site's hosts."""
    if site.cloud is None:
        return MachinesProvider(site)
    if site.cloud.deployment == "lab":
        from strata_lab.provider import LabProvider  # late: a real site never loads it

        return LabProvider(site)
    if site.cloud.deployment == "kolla":
        from strata.kolla.provider import KollaProvider  # late: it is above the layers that use a provider

        return KollaProvider(site)
    return ExistingCloudProvider(site)
