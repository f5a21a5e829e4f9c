"""podman networks that carry neutron's."""

from __future__ import annotations

import json
from typing import Any

from nova import exception
from nova.virt.lab.options import CONF
from nova.virt.lab.podman import PodmanError, network_exists, podman
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

LOCK = "strata-lab-networks"
"""Held while a network is made, used for the first time, or removed; every nova-compute has the same lock path."""

NETWORK_LABEL = "strata.neutron_network"


def podman_name(network_id: str) -> str:
    """Name of the podman network of a neutron network."""
    return f"strata-{CONF.lab.site}-{network_id[:8]}"


def ipv4(vif: dict[str, Any]) -> dict[str, Any]:
    """The port's IPv4 subnet with its addresses.

    Raises:
        NovaException: it has none.
    """
    for subnet in vif["network"]["subnets"]:
        if subnet["version"] == 4 and subnet["ips"]:
            first: dict[str, Any] = subnet
            return first
    raise exception.NovaException(f"port {vif['id']} has no IPv4 address")


def arguments(network_info: list[dict[str, Any]]) -> list[str]:
    """Options of `podman create` for the ports; makes their networks where needed. Call it under LOCK."""
    options: list[str] = []
    for vif in network_info:
        subnet = ipv4(vif)
        name = _ensure(vif["network"], subnet)
        options += ["--network", f"{name}:ip={subnet['ips'][0]['address']},mac={vif['address']}"]
    return options or ["--network", "none"]


def _ensure(network: dict[str, Any], subnet: dict[str, Any]) -> str:
    name = podman_name(network["id"])
    if network_exists(name):
        return name
    command = ["network", "create", "--disable-dns", "--subnet", str(subnet["cidr"]), "--opt", f"mtu={CONF.lab.mtu}"]
    command += ["--label", f"strata.site={CONF.lab.site}", "--label", f"{NETWORK_LABEL}={network['id']}"]
    gateway = (subnet.get("gateway") or {}).get("address")
    # without a gateway the interface must bring no default route
    command += ["--gateway", str(gateway)] if gateway else ["--internal"]
    podman(*command, name)
    return name


def name_servers(network_info: list[dict[str, Any]]) -> list[str]:
    """Name servers that neutron has for the ports."""
    addresses = [str(server["address"]) for vif in network_info for server in ipv4(vif).get("dns") or []]
    return list(dict.fromkeys(addresses))


def remove_unused() -> None:
    """Removes the site's instance networks that no container uses. Call it under LOCK."""
    try:
        used: set[str] = set()
        for container in json.loads(podman("ps", "--all", "--format", "json") or "[]") or []:
            used.update(container.get("Networks") or [])
        ours = podman(
            *("network", "ls", "--format", "{{.Name}}", "--filter", f"label=strata.site={CONF.lab.site}"),
            *("--filter", f"label={NETWORK_LABEL}"),
        )
        for name in set(ours.split()) - used:
            podman("network", "rm", name)
    except PodmanError as error:
        LOG.warning("networks stay until the next removal: %s", error)
