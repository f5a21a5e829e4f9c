"""ML2 mechanism driver without an agent on the hypervisors.

nova's lab driver wires each port itself, as an address in a podman network of the same subnet; so a port is active as
soon as neutron has bound it to a host.
"""

from __future__ import annotations

from typing import Any

from neutron_lib import constants
from neutron_lib.api.definitions import portbindings
from neutron_lib.plugins.ml2 import api


class LabMechanismDriver(api.MechanismDriver):  # type: ignore[misc]  # neutron ships no types
    """Binds every port on the first segment of its network."""

    def initialize(self) -> None:
        """Nothing to prepare."""

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
