"""The one choice of a cloud's life cycle; the engine and what is below it are handed the chosen one."""

from __future__ import annotations

from strata.lifecycle import CloudLifecycle
from strata.site.context import SiteContext


def lifecycle_of(context: SiteContext) -> CloudLifecycle:
    """The life cycle of a site's cloud; `context.provider` has the facts of the same cloud.

    Args:
        context: the site.

    Raises:
        UserError: the site is a lab, and Strata is installed without it.
    """
    _ = context.provider  # refuses a lab where there is none
    cloud = context.site.cloud
    if cloud is None:
        return CloudLifecycle(context)
    if cloud.deployment == "lab":
        from strata_lab.lifecycle import LabLifecycle  # noqa: PLC0415  # the one late choice

        return LabLifecycle(context)
    if cloud.deployment == "kolla":
        from strata.installers.kolla.lifecycle import KollaLifecycle  # noqa: PLC0415  # the one late choice

        return KollaLifecycle(context)
    from strata.engine.existing_cloud.lifecycle import ExistingCloudLifecycle  # noqa: PLC0415  # the one late choice

    return ExistingCloudLifecycle(context)
