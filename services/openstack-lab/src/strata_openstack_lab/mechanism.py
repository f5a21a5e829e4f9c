"""ML2 mechanism driver without an agent on the hypervisors.

nova's lab driver wires each port itself, as an address in a podman network of the same subnet; so a port is active as
soon as neutron has bound it to a host. What may pass is up to the network agent on the host (src/strata/lab/network),
which reads neutron's objects from a file that this driver keeps up to date.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from neutron_lib import constants
from neutron_lib.api.definitions import portbindings
from neutron_lib.callbacks import events, registry, resources
from neutron_lib.plugins.ml2 import api
from oslo_config import cfg

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


class LabMechanismDriver(api.MechanismDriver):  # type: ignore[misc]  # neutron ships no types
    """Binds every port on the first segment of its network."""

    def initialize(self) -> None:
        """Listens to every change."""
        cfg.CONF.register_opts(OPTIONS, "lab")
        if not cfg.CONF.lab.objects_file:
            return
        self._objects = ObjectsFile(Path(cfg.CONF.lab.objects_file))
        for resource in WATCHED:
            for event in CHANGES:
                registry.subscribe(self._objects.touch, resource, event)
        for event in (events.AFTER_INIT, events.AFTER_SPAWN):
            registry.subscribe(self._objects.touch, resources.PROCESS, event)

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
