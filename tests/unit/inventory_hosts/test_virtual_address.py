"""Several load balancers with a virtual address: what is derived for them, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.cloud.arguments import further_networks, virtual_address_arguments
from strata.cloud.role_ports import security_group_arguments
from strata.inventory.build import build_inventory
from strata.inventory.role_variables import role_variables
from strata.inventory.topology import host_networks
from strata.models.site import Site
from strata.roles import units_of
from strata.site.host_list import address_of, api_address, outside_of, running_roles
from strata.site.openings import VRRP, openings
from strata.site.outputs import CloudOutputs, InstanceOutput
from strata.site.paths import REPOSITORY
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError

CAMPUS = REPOSITORY / "inventories" / "campus" / "site.yaml"
ADDRESS, OUTSIDE = "10.79.0.9", "203.0.113.9"
EDGES = {"edge-1": "10.79.0.20", "edge-2": "10.79.0.21"}


def campus(tmp_path: Path, *, second: bool = True, network: str | None = None, **section: Any) -> Site:
    """The site campus, with a second load balancer and `hosts.load_balancer`."""
    content = yaml.safe_load(CAMPUS.read_text())
    instances = content["cloud"]["instances"]
    if second:
        edge = next(i for i in instances if i["name"] == "edge-1")
        instances.append(edge | {"name": "edge-2", "roles": ["load_balancer"], "floating_ip": False})
        if network is not None:
            instances[-1]["network"] = network
            content["cloud"]["networks"].append({"name": network, "cidr": "10.80.0.0/24"})
    if section:
        content["hosts"]["load_balancer"] = section
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(content))
    return load_site(tmp_path / "site.yaml")


def machines(tmp_path: Path, count: int = 2, **section: Any) -> Site:
    """Load balancers that are machines."""
    hosts = [{"name": f"edge-{n}", "address": f"192.0.2.{n}", "roles": ["load_balancer"]} for n in range(1, count + 1)]
    content = {
        "name": "metal",
        "domain": "metal.example.org",
        "access": {"ssh": ["198.51.100.0/24"]},
        "hosts": {"machines": hosts or [{"name": "nfs", "address": "192.0.2.8", "roles": ["registry"]}]},
    }
    if section:
        content["hosts"]["load_balancer"] = section  # type: ignore[index]
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(content))
    return load_site(tmp_path / "site.yaml")


def outputs(site: Site, virtual: str | None = None) -> CloudOutputs:
    """As if the cloud layer had made the instances."""
    assert site.cloud is not None
    instances = {
        i.name: InstanceOutput(
            id=i.name,
            name=i.name,
            address=EDGES.get(i.name, f"10.79.0.{number}"),
            flavor=i.flavor,
            roles=running_roles(site, i.roles),
            floating_ip="203.0.113.1" if i.floating_ip else None,
        )
        for number, i in enumerate(site.cloud.instances, start=30)
    }
    return CloudOutputs(instances=instances, networks={}, virtual_floating_ip=virtual)


def test_clients_inside_and_outside_reach_the_virtual_address(tmp_path: Path) -> None:
    site = campus(tmp_path, virtual_address=ADDRESS, floating_ip=True)
    cloud = outputs(site, OUTSIDE)
    assert (address_of("load_balancer", site, cloud), outside_of("load_balancer", site, cloud)) == (ADDRESS, OUTSIDE)
    assert (api_address(site, cloud), api_address(site, cloud, outside=True)) == (ADDRESS, OUTSIDE)
    # the registry is not behind it
    assert address_of("registry", site, cloud) == EDGES["edge-1"]
    api = role_variables("kube_control_plane", site, cloud)
    assert api["kube_control_plane_api_address"] == ADDRESS
    assert api["kube_control_plane_external_address"] == OUTSIDE
    names = {n["name"]: n["address"] for n in role_variables("base", site, cloud)["base_service_names"]}  # type: ignore[attr-defined]
    assert names[f"registry.{site.domain}"] == EDGES["edge-1"]


def test_every_load_balancer_runs_keepalived_and_may_connect_behind(tmp_path: Path) -> None:
    site = campus(tmp_path, virtual_address=ADDRESS, floating_ip=True)
    inventory = build_inventory(site, outputs(site), tmp_path / "site.yaml")
    assert inventory.groups["keepalived"] == list(EDGES)
    assert inventory.variables["keepalived"] == {
        "keepalived_virtual_address": ADDRESS,
        "keepalived_members": EDGES,
    }
    assert "keepalived" in inventory.hosts["edge-2"]["base_packages"]  # type: ignore[operator]
    assert "keepalived" in units_of(running_roles(site, ("load_balancer",)))
    order = inventory.variables["all"]["strata_host_roles"]
    assert order.index("load_balancer") < order.index("keepalived")  # type: ignore[attr-defined]


def test_a_site_without_the_section_has_no_keepalived(tmp_path: Path) -> None:
    site = campus(tmp_path, second=False)
    inventory = build_inventory(site, outputs(site), tmp_path / "site.yaml")
    assert "keepalived" not in inventory.groups
    assert VRRP not in openings(site)["load_balancer"]
    assert site.cloud is not None
    assert virtual_address_arguments(site, site.cloud) is None
    assert address_of("load_balancer", site, outputs(site)) == EDGES["edge-1"]


def test_one_load_balancer_may_have_a_virtual_address(tmp_path: Path) -> None:
    """A second one then joins without another address for clients."""
    site = campus(tmp_path, second=False, virtual_address=ADDRESS, floating_ip=True)
    assert address_of("load_balancer", site, outputs(site)) == ADDRESS


def test_ports_of_load_balancers_may_send_from_the_address_and_vrrp_passes_between_them(tmp_path: Path) -> None:
    site = campus(tmp_path, virtual_address=ADDRESS, floating_ip=True)
    assert site.cloud is not None
    assert further_networks(site, ("registry", "load_balancer")) == (ADDRESS,)
    assert ADDRESS not in further_networks(site, ("kube_node",))
    rules = security_group_arguments(site, site.cloud)["load_balancer"].ingress
    assert [(r.group, r.source) for r in rules if r.protocol == "vrrp"] == [("load_balancer", None)]


def test_the_firewall_of_machines_accepts_vrrp_from_load_balancers(tmp_path: Path) -> None:
    site = machines(tmp_path, virtual_address="192.0.2.9")
    accepts = role_variables("firewall", site, None)["firewall_accepts"]
    (vrrp,) = (a for a in accepts["load_balancer"] if a["name"] == "vrrp")  # type: ignore[index]
    assert vrrp == {
        "name": "vrrp",
        "protocol": "vrrp",
        "ports": "",
        "ipv4": ["192.0.2.1/32", "192.0.2.2/32"],
        "ipv6": [],
    }


def test_the_certificate_of_postgresql_has_the_virtual_address(tmp_path: Path) -> None:
    content = yaml.safe_load(CAMPUS.read_text())
    for name in ("database-2", "database-3"):
        more = {"flavor": "cpu.small", "image": "debian-13", "network": "campus", "roles": ["postgresql"]}
        content["cloud"]["instances"].append(more | {"name": name})
    content["hosts"]["load_balancer"] = {"virtual_address": ADDRESS, "floating_ip": True}
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(content))
    site = load_site(tmp_path / "site.yaml")
    assert address_of("postgresql", site, outputs(site)) == ADDRESS
    certificate = role_variables("postgresql", site, outputs(site))["postgresql_certificate"].expression  # type: ignore[attr-defined]
    assert f"'{ADDRESS}'" in certificate


@pytest.mark.parametrize(
    ("section", "key", "why", "fix"),
    [
        ({}, "cloud.instances[7].roles", "already on edge-1; several load balancers need", "load_balancer: {virtual_"),
        ({"virtual_address": "10.79.0.1"}, "virtual_address", "cloud.networks[0].gateway", "no host has"),
        ({"virtual_address": "10.79.0.50"}, "virtual_address", "in the allocation pool", "outside of its allocation"),
        ({"virtual_address": "10.80.0.9"}, "virtual_address", "not in 10.79.0.0/24", "an address of 10.79.0.0/24"),
        ({"virtual_address": "10.79.0.0"}, "virtual_address", "the network's own", "an address of 10.79.0.0/24"),
        ({"virtual_address": "fd00::9"}, "virtual_address", "is an IPv6 address", "an IPv4 address"),
        ({"virtual_address": ADDRESS, "floating_ip": False}, "load_balancer", "edge-1 has one", "floating_ip: true"),
        (
            {"virtual_address": ADDRESS, "network": "other"},
            "cloud.instances[7].network",
            "is not that of edge-1, campus",
            "network: campus",
        ),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, section: dict[str, Any], key: str, why: str, fix: str) -> None:
    if section:
        section = {"floating_ip": True} | section
    with pytest.raises(SiteError) as error:
        campus(tmp_path, **section)
    (problem,) = error.value.problems
    assert problem.key.endswith(key)
    assert why in problem.why
    assert fix in problem.fix


@pytest.mark.parametrize(
    ("count", "section", "why", "fix"),
    [
        (2, {"virtual_address": "192.0.2.2"}, "is the same as hosts.machines[1].address", "no host has"),
        (0, {"virtual_address": "192.0.2.9"}, "needs a host with the role load_balancer", "give a host the role"),
        (2, {"virtual_address": "192.0.2.9", "floating_ip": True}, "the load balancers are none", "remove the line"),
    ],
)
def test_what_cannot_work_on_machines_is_refused(
    tmp_path: Path, count: int, section: dict[str, Any], why: str, fix: str
) -> None:
    with pytest.raises(SiteError) as error:
        machines(tmp_path, count, **section)
    (problem,) = error.value.problems
    assert why in problem.why
    assert fix in problem.fix


def test_a_machine_and_an_instance_share_no_address(tmp_path: Path) -> None:
    content = yaml.safe_load(CAMPUS.read_text())
    content["hosts"]["machines"] = [{"name": "edge-2", "address": "192.0.2.1", "roles": ["load_balancer"]}]
    content["hosts"]["load_balancer"] = {"virtual_address": ADDRESS, "floating_ip": True}
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(SiteError, match="virtual_address with edge-1, which is an instance"):
        load_site(tmp_path / "site.yaml")


def test_pods_reach_the_virtual_address_for_https_alone(tmp_path: Path) -> None:
    site = campus(tmp_path, virtual_address=ADDRESS, floating_ip=True)
    services = role_variables("pod_network", site, outputs(site))["pod_network_host_services"]
    assert {s["port"] for s in services if s["address"] == ADDRESS} == {80, 443}  # type: ignore[attr-defined]
    assert host_networks(machines(tmp_path, virtual_address="192.0.2.9")) == [f"192.0.2.{n}/32" for n in (1, 2, 9)]
