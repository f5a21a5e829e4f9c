"""Asks OpenStack."""

from __future__ import annotations

from strata.access.openstack import connect, visible_servers
from strata.observe.facts import NOT_UP, OBSERVE_SECONDS, CloudFacts, ServerFacts
from strata.site.context import SiteContext


def observe_cloud(context: SiteContext) -> CloudFacts:
    """Instances, hypervisors and flavors; a cloud that cannot be reached is reported, not raised."""
    own = context.provider.clouds_file
    if context.site.cloud is None or (own is not None and not own.exists()):
        return CloudFacts(reason=NOT_UP)
    from keystoneauth1.exceptions import ClientException  # noqa: PLC0415  # loads openstack: 0.2 s
    from openstack.exceptions import ForbiddenException, SDKException  # noqa: PLC0415  # loads openstack: 0.2 s

    outputs = context.cloud_outputs
    known = {i.id for i in outputs.instances.values()} if outputs else set()
    servers: dict[str, ServerFacts] = {}
    hypervisors: dict[str, str] = {}
    try:
        with connect(context, seconds=OBSERVE_SECONDS) as connection:
            for server in visible_servers(connection, context):
                # another project may have an instance of the same name
                if server.name not in servers or server.id in known:
                    servers[server.name] = ServerFacts(
                        id=server.id, status=server.status, hypervisor=server.hypervisor_hostname
                    )
            try:
                for service in connection.compute.services(binary="nova-compute"):
                    hypervisors[service.host] = service.state
            except ForbiddenException:
                pass  # only administrators see them; the site works without
            flavors = frozenset(flavor.name for flavor in connection.compute.flavors())
    except (SDKException, ClientException, OSError) as error:
        lines = str(error).strip().splitlines()
        return CloudFacts(reason=f"unreachable: {lines[0][:120] if lines else type(error).__name__}")
    return CloudFacts(servers=servers, hypervisors=hypervisors, flavors=flavors)
