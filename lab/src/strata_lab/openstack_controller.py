"""Variables of the lab's OpenStack controller."""

from __future__ import annotations

import os

from strata.cloud.card_placement import MOST_CANDIDATES, cards_in_placement
from strata.inventory import Template
from strata.models.cloud import Cloud
from strata.models.compute import Hypervisor
from strata.models.site import Site
from strata_lab.cards import simulated_cards

CONTROLLER_OFFSET = 10
"""The controller is the tenth address of the control network."""

SERVICES = {"placement": "placement", "image": "glance", "network": "neutron", "compute": "nova"}
"""Part of OpenStack to the name of its user in keystone and in the database."""

SCHEMAS = {"nova": ["nova_api", "nova", "nova_cell0"]}
"""Database schemas of a service that has others than its own name's."""

URLS = {
    "placement": "http://{address}:8778",
    "image": "http://{address}:9292",
    "network": "http://{address}:9696",
    "compute": "http://{address}:8774/v2.1",
}
METADATA_SECRET = "openstack_metadata_secret"  # noqa: S105  # its name
"""What nova and the network agent share."""
PASSED_ON = (
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    *("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL"),
)
"""Environment variables that an installation on the controller needs as this machine does."""


def controller_address(site: Site) -> str:
    """Address of the controller.

    Raises:
        ValueError: the site has no control network.
    """
    if site.cloud is None or site.cloud.control_network is None:
        raise ValueError(f"site {site.name} has no cloud.control_network")
    return str(site.cloud.control_network[CONTROLLER_OFFSET])


def variables(site: Site) -> dict[str, object]:
    """What the openstack_* roles need.

    Args:
        site: the model; its cloud is a lab's.

    Raises:
        ValueError: the site has no lab cloud.
    """
    cloud = site.cloud
    if cloud is None or cloud.control_network is None:
        raise ValueError(f"site {site.name} has no lab cloud")
    address = controller_address(site)
    values: dict[str, object] = {
        "openstack_common_site": site.name,
        "openstack_common_address": address,
        "openstack_common_install_environment": {k: os.environ[k] for k in PASSED_ON if k in os.environ},
        "openstack_messaging_password": _secret("openstack_messaging_password"),
        "openstack_identity_admin_password": _secret("openstack_admin_password"),
        "openstack_identity_database_password": _secret("openstack_keystone_database_password"),
        "openstack_database_users": [
            {
                "name": user,
                "password": _secret(f"openstack_{user}_database_password"),
                "schemas": SCHEMAS.get(user, [user]),
            }
            for user in ("keystone", *SERVICES.values())
        ],
        "openstack_identity_services": [
            {
                "name": user,
                "type": part,
                "url": URLS[part].format(address=address),
                "password": _secret(f"openstack_{user}_password"),
            }
            for part, user in SERVICES.items()
        ],
        "openstack_compute_hypervisors": [_hypervisor(site, h) for h in cloud.hypervisors],
        "openstack_compute_metadata_secret": _secret(METADATA_SECRET),
        "openstack_placement_most_candidates": MOST_CANDIDATES,
        "openstack_compute_pci_in_placement": cards_in_placement(cloud),
        "openstack_compute_pci_aliases": [site.accelerators[kind].alias for kind in _kinds(cloud)],
    }
    for part, user in SERVICES.items():
        values[f"openstack_{part}_service_password"] = _secret(f"openstack_{user}_password")
        values[f"openstack_{part}_database_password"] = _secret(f"openstack_{user}_database_password")
    return values


def _secret(name: str) -> Template:
    return Template(f"{{{{ lookup('strata_secret', '{name}') }}}}")


def _kinds(cloud: Cloud) -> list[str]:
    counts = [h.accelerators for h in cloud.hypervisors] + [f.accelerators for f in cloud.flavors]
    return sorted({kind for kinds in counts for kind in kinds})


def _hypervisor(site: Site, hypervisor: Hypervisor) -> dict[str, object]:
    kinds = [site.accelerators[kind] for kind in sorted(hypervisor.accelerators)]
    return {
        "name": hypervisor.name,
        "vcpus": hypervisor.vcpus,
        "memory_mebibytes": hypervisor.memory.mebibytes,
        "disk_gibibytes": hypervisor.disk.gibibytes,
        "devices": [card.option for card in simulated_cards(site.accelerators, hypervisor.accelerators)],
        "device_specs": [card.device_spec for card in kinds],
    }
