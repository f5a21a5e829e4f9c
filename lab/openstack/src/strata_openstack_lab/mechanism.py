"""ML2 mechanism driver without an agent on the hypervisors.

nova's lab driver wires each port itself, as an address in a podman network of the same subnet; so a port is active as
soon as neutron has bound it to a host. What may pass is up to the network agent on the host (strata_lab.network),
which reads neutron's objects from a file that this driver keeps up to date.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from neutron import policy
from neutron_lib import constants
from neutron_lib import context as neutron_context
from neutron_lib.api.definitions import portbindings
from neutron_lib.callbacks import events, priority_group, registry, resources
from neutron_lib.plugins.ml2 import api
from oslo_config import cfg
from sqlalchemy import orm

from strata_openstack_lab.objects import ObjectsFile

OPTIONS = [
    cfg.StrOpt(
        "objects_file",
        help="File for the network agent, in a directory of neutron's; none is written where it is not set.",
    )
]
CHANGES = (events.AFTER_CREATE, events.AFTER_UPDATE, events.AFTER_DELETE)
WATCHED = (
    *(resources.NETWORK, resources.SUBNET, resources.PORT, resources.ADDRESS_GROUP),
    *(resources.SECURITY_GROUP, resources.SECURITY_GROUP_RULE),
    *(resources.ROUTER, resources.ROUTER_INTERFACE, resources.ROUTER_GATEWAY, resources.FLOATING_IP),
)
"""What the agent needs to hear of."""


def prepare(*_: Any, **__: Any) -> None:
    """Makes what neutron makes at its first request, and is not ready to make in two threads at a time.

    Without it an administrator's request may be refused with 403 while another one reads the policies, or fail since
    the relations between tables are not known yet.
    """
    policy.init()
    # neutron-lib's own policies, too, by asking whether a caller is an administrator
    neutron_context.Context(user_id="nobody", project_id="nothing")
    orm.configure_mappers()


class LabMechanismDriver(api.MechanismDriver):  # type: ignore[misc]  # neutron ships no types
    """Binds every port on the first segment of its network."""

    def initialize(self) -> None:
        """Listens to every change."""
        cfg.CONF.register_opts(OPTIONS, "lab")
        registry.subscribe(prepare, resources.PROCESS, events.AFTER_INIT)
        if not cfg.CONF.lab.objects_file:
            return
        self._objects = ObjectsFile(Path(cfg.CONF.lab.objects_file))
        for resource in WATCHED:
            for event in CHANGES:
                registry.subscribe(self._objects.touch, resource, event)
        for event in (events.AFTER_INIT, events.AFTER_SPAWN):
            registry.subscribe(self._objects.touch, resources.PROCESS, event, priority_group.PRIORITY_DEFAULT + 1)

    @property
    def connectivity(self) -> str:
        """Ports are on the same layer 2."""
        return str(portbindings.CONNECTIVITY_L2)

    def bind_port(self, context: Any) -> None:
        """Binds the port and marks it as active.

        Args:
            context: neutron's PortContext.
        """
        for segment in context.segments_to_bind:
            context.set_binding(
                segment[api.ID],
                portbindings.VIF_TYPE_OTHER,
                {portbindings.CAP_PORT_FILTER: True},
                status=constants.PORT_STATUS_ACTIVE,
            )
            return
