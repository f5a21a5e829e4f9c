"""The one choice of the facts about a site's hosts."""

from __future__ import annotations

from strata.errors import UserError
from strata.models.site import Site
from strata.provider.base import Provider
from strata.provider.existing import ExistingCloudProvider
from strata.site.paths import INSTALLED


def provider_of(site: Site) -> Provider:
    """The provider of a site's hosts.

    Raises:
        UserError: the site is a lab, and Strata is installed without it.
    """
    if site.cloud is None:
        return Provider(site)
    if site.cloud.deployment == "lab":
        if INSTALLED:
            raise UserError(
                f"site {site.name} is a lab, and the installed Strata has none",
                fix="run scripts/lab in a clone of the repository, or set another cloud.deployment",
                see="the-installed-strata-has-no-lab-and-no-templates",
            )
        from strata_lab.provider import LabProvider  # noqa: PLC0415  # the one late choice

        return LabProvider(site)
    if site.cloud.deployment == "kolla":
        from strata.installers.kolla.provider import KollaProvider  # noqa: PLC0415  # the one late choice

        return KollaProvider(site)
    return ExistingCloudProvider(site)
