"""Drift of a real stack in a small OpenStack, found and repaired by the real engine, provider and openstacksdk."""

from __future__ import annotations

import json

import pytest

from .conftest import SITE, Place

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("adopt-contract")]


def test_what_the_provider_does_not_see_is_named_and_repaired(lost: Place) -> None:
    """One `status` names each property once, one `up` repairs all, the next finds nothing to change."""
    lost.json("adopt", "--yes")
    lost.json("up", "--layer", "cloud")
    neutron = lost.cloud.neutron
    port, other = neutron.named("ports", "worker-1"), neutron.named("ports", "storage-1")
    groups = list(port["security_groups"]), list(other["security_groups"])
    foreign_group = neutron.create("security-groups", {"name": "default"})
    port["security_groups"] = [*groups[0], foreign_group["id"]]
    other |= {"security_groups": [], "port_security_enabled": False}
    group = neutron.named("security-groups", f"{SITE}-kine")
    rules = neutron.objects["security-group-rules"]
    egress = next(r for r in rules.values() if r["security_group_id"] == group["id"] and r["direction"] == "egress")
    del rules[egress["id"]]
    foreign = {"security_group_id": group["id"], "direction": "ingress", "ethertype": "IPv4", "protocol": "tcp"}
    neutron.create("security-group-rules", {**foreign, "port_range_min": 22, "port_range_max": 22})
    network, subnet = neutron.named("networks", "campus"), neutron.named("subnets", "campus")
    network |= {"shared": True, "port_security_enabled": True}
    subnet |= {"enable_dhcp": False, "host_routes": [{"destination": "10.9.0.0/24", "nexthop": "10.79.0.9"}]}
    router = neutron.named("routers", SITE)
    router["routes"] = [{"destination": "10.8.0.0/24", "nexthop": "10.79.0.8"}]
    server = lost.cloud.server("worker-1")
    given = {"network_id": network["id"], "device_id": server["id"], "device_owner": "compute:nova"}
    nic = neutron.create("ports", given)
    server["metadata"]["strata_site"] = "other"
    # what the program declares is the provider's to compare, and is named once too
    subnet["dns_nameservers"] = ["192.0.2.53"]
    neutron.named("ports", "control-1")["allowed_address_pairs"] = []

    done = lost.strata("status", "--json")
    assert done.returncode == 1, done.stderr
    answer = json.loads(done.stdout)["drift"]
    rows = [(d["object"], d["property"]) for d in answer["drift"] if d["layer"] == "cloud"]
    assert len(rows) == len(set(rows))
    assert set(rows) == {
        ("port worker-1", "security_groups"),
        ("port storage-1", "security_groups"),
        ("port storage-1", "port_security_enabled"),
        ("sec group kine", "rule ingress IPv4 tcp 22-22 from anywhere"),
        ("sec group kine", "rule egress IPv4 any to anywhere"),
        ("network campus", "shared"),
        ("subnet campus", "enable_dhcp"),
        ("subnet campus", "host_routes"),
        ("subnet campus", "dnsNameservers"),
        ("port control-1", "allowedAddressPairs"),
        ("router router", "routes"),
        ("instance worker-1", f"interface {nic['fixed_ips'][0]['ip_address']}"),
        ("instance worker-1", "metadata strata_site"),
    }, answer
    assert lost.json("up", "--layer", "cloud")["changed"] == 11
    assert (sorted(port["security_groups"]), sorted(other["security_groups"])) == tuple(map(sorted, groups))
    assert other["port_security_enabled"]
    assert subnet["enable_dhcp"]
    assert nic["id"] not in neutron.objects["ports"]
    assert lost.json("up", "--layer", "cloud")["changed"] == 0


def test_a_resize_outside_strata_is_not_undone_unasked(lost: Place) -> None:
    """The site file is unchanged, and `up` still asks before it stops the instance."""
    lost.json("adopt", "--yes")
    lost.json("up", "--layer", "cloud")
    lost.cloud.server("worker-1")["flavor"] = {"id": lost.cloud.flavors["gpu.v100.1"]["id"]}
    lost.cloud.writes.clear()
    refused = lost.strata("up", "--layer", "cloud")
    assert refused.returncode == 4, refused.stderr
    assert "worker-1 is resized" in refused.stderr
    assert lost.cloud.writes == []
