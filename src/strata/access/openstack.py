"""openstacksdk on a site's cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata.site.context import SiteContext

if TYPE_CHECKING:
    from openstack.connection import Connection


def connect(context: SiteContext, entry: str | None = None) -> Connection:
    """A connection to the site's cloud; a context manager.

    Args:
        context: the site.
        entry: of clouds.yaml; None for the administrator's.
    """
    import openstack  # takes 0.3 s, which other layers need not pay

    own = context.provider.clouds_file
    loader = openstack.config.OpenStackConfig(config_files=None if own is None else [str(own)])
    return openstack.connection.Connection(config=loader.get_one(cloud=entry or context.provider.cloud_entry))
