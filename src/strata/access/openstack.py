"""openstacksdk on a site's cloud."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from strata.site.context import SiteContext

if TYPE_CHECKING:
    from openstack.block_storage.v3.volume import Volume
    from openstack.compute.v2.server import Server
    from openstack.compute.v2.server_group import ServerGroup
    from openstack.connection import Connection


def connect(context: SiteContext, entry: str | None = None, seconds: float | None = None) -> Connection:
    """A connection to the site's cloud; a context manager.

    Args:
        context: the site.
        entry: of clouds.yaml; None for the administrator's, or the member's where there is none.
        seconds: how long a request may take; None for any time.
    """
    import openstack  # noqa: PLC0415  # loads openstack: 0.2 s

    own = context.provider.clouds_file
    loader = openstack.config.OpenStackConfig(config_files=None if own is None else [str(own)])
    limit: dict[str, Any] = {} if seconds is None else {"api_timeout": seconds}
    return openstack.connection.Connection(config=loader.get_one(cloud=entry or context.provider.cloud_entry, **limit))


def visible_servers(connection: Connection, context: SiteContext, **query: Any) -> Iterable[Server]:
    """Instances of every project; with a member's rights, those of the site's."""
    every = context.site.cloud is not None and context.site.cloud.administrator
    return connection.compute.servers(all_projects=every, **query)


def server_groups(connection: Connection, context: SiteContext) -> Iterator[ServerGroup]:
    """Those of the site's project; nova shows an administrator everyone's."""
    cloud, project = context.site.cloud, project_id(connection, context)
    query = {"all_projects": True} if cloud is not None and cloud.administrator else {}
    for group in connection.compute.server_groups(**query):
        if project is not None and group.project_id == project:
            yield group


def volumes(connection: Connection, context: SiteContext) -> Iterator[Volume]:
    """Those of the site's project, if the cloud has cinder according to the site file."""
    cloud, project = context.site.cloud, project_id(connection, context)
    if cloud is None or not cloud.block_storage or not has_cinder(connection):
        return
    storage: Any = connection.block_storage
    query = {"all_projects": True} if cloud.administrator else {}
    for volume in storage.volumes(**query):
        if project is not None and volume.project_id == project:
            yield volume


def has_cinder(connection: Connection) -> bool:
    """Whether the catalog of the cloud lists the block storage service."""
    session: Any = connection.session
    catalog = session.auth.get_access(session).service_catalog
    return not {"block-storage", "block-store", "volumev3", "volume"}.isdisjoint(catalog.get_endpoints())


def project_id(connection: Connection, context: SiteContext) -> str | None:
    """The id of the site's project; None where it does not exist."""
    cloud = context.site.cloud
    assert cloud is not None
    if not cloud.administrator:
        return connection.current_project_id
    identity: Any = connection.identity  # the SDK types it as either version's
    project = identity.find_project(cloud.project.name)
    return str(project.id) if project else None
