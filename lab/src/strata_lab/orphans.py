"""What killed runs and services leave in podman and placement."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from strata.access.podman import SITE_LABEL, list_containers, podman
from strata.drift_model import OrphanedResource
from strata.layers import Layer
from strata_lab import backup_store

if TYPE_CHECKING:
    from openstack.connection import Connection


def podman_orphans(site: str, connection: Connection, servers: set[str]) -> Iterator[OrphanedResource]:
    """Containers, volumes and networks of a site that nova or neutron has no record of."""
    label = f"label={SITE_LABEL}={site}"
    prefix = f"strata-{site}-"
    for container in list_containers("--filter", label):
        name, labels = container["Names"][0], container["Labels"]
        if "strata.role" not in labels and labels.get("strata.instance") not in servers:
            yield OrphanedResource(
                layer=Layer.CLOUD,
                object=f"container {name}",
                why="nova has no such instance",
                fix=f"podman rm -f -v {name}",
            )
    for name in podman("volume", "ls", "--filter", label, "--format", "{{.Name}}").split():
        known = (*(prefix + server for server in servers), backup_store.container_name(site))
        if not name.startswith(known):
            yield OrphanedResource(
                layer=Layer.CLOUD,
                object=f"volume {name}",
                why="nova has no such instance",
                fix=f"podman volume rm {name}",
            )
    networks = {str(n.id) for n in connection.network.networks()}
    for network in json.loads(podman("network", "ls", "--filter", label, "--format", "json") or "[]"):
        network_id = (network.get("labels") or {}).get("strata.neutron_network")
        if network_id is not None and network_id not in networks:
            name = network["name"]
            yield OrphanedResource(
                layer=Layer.CLOUD,
                object=f"network {name}",
                why="neutron has no such network",
                fix=f"podman network rm {name}",
            )


def allocation_orphans(connection: Connection, servers: set[str]) -> Iterator[OrphanedResource]:
    """CPUs, memory and cards that placement counts for instances that nova no longer has."""
    for provider in connection.placement.resource_providers():
        answer = connection.placement.get(f"/resource_providers/{provider.id}/allocations").json()
        for consumer in set(answer["allocations"]) - servers:
            yield OrphanedResource(
                layer=Layer.CLOUD,
                object=f"resources of {provider.name} for {consumer}",
                why="nova has no such instance",
                fix=f"openstack resource provider allocation delete {consumer}",
            )
