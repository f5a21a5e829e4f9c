"""Which objects of a project are the resources of a site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from strata.adopt.matching import match
from strata.adopt.project import KINDS, PORT, CloudObject
from strata.errors import UserError
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site
from strata.stacks.recovery import INSTANCE
from strata.stacks.rehearsal import Creation

TYPES = {kind: token for token, kind in KINDS.items()}
SITE = load_site(find_site("campus"))


def creation(kind: str, name: str, /, **inputs: Any) -> Creation:
    return Creation(TYPES[kind], name, inputs)


def matched(
    creations: Sequence[Creation], objects: Mapping[str, Sequence[CloudObject]], chosen: Mapping[str, str] | None = None
) -> dict[str, tuple[str, ...]]:
    """KIND/NAME to the ids that could be meant."""
    matches = match(SITE, creations, {kind: tuple(all_) for kind, all_ in objects.items()}, chosen or {})
    return {item.key: tuple(o.id for o in item.objects) for item in matches}


NETWORK = creation("network", "campus", name="campus")
WORKER = creation("instance", "worker-1", name="worker-1")
WORKER_PORT = creation("port", "worker-1", name="worker-1")


def port(identifier: str, name: str = "", **values: Any) -> CloudObject:
    return CloudObject(identifier, name, {"network_id": "n1", "device_id": "", **values})


def test_a_port_is_the_servers_whatever_its_name() -> None:
    """nova names no port that it creates itself; one of the right name that no server has is only the second choice."""
    objects = {
        "network": [CloudObject("n1", "campus")],
        "instance": [CloudObject("s1", "worker-1"), CloudObject("s2", "worker-11")],
        "port": [port("p1", device_id="s1"), port("p2", "worker-1"), port("p3", device_id="s1", network_id="n2")],
    }
    # whatever the order in which the program creates them
    assert matched([WORKER_PORT, WORKER, NETWORK], objects)["port/worker-1"] == ("p1",)
    without = {**objects, "instance": []}
    assert matched([NETWORK, WORKER, WORKER_PORT], without)["port/worker-1"] == ("p2",)
    assert matched([NETWORK, WORKER, WORKER_PORT], {**objects, "network": []})["port/worker-1"] == ()


def test_a_name_that_two_objects_have_is_ambiguous_until_one_is_chosen() -> None:
    objects = {
        "network": [CloudObject("n1", "campus"), CloudObject("n2", "campus"), CloudObject("n3", "other")],
        "subnet": [
            CloudObject("b1", "campus", {"network_id": "n1", "cidr": "10.79.0.0/24"}),
            CloudObject("b3", "by-hand", {"network_id": "n3", "cidr": "10.79.0.0/24"}),
        ],
    }
    creations = [NETWORK, creation("subnet", "campus", name="campus", cidr="10.79.0.0/24")]
    assert matched(creations, objects) == {"network/campus": ("n1", "n2"), "subnet/campus": ()}
    assert matched(creations, objects, {"network/campus": "n3"}) == {
        "network/campus": ("n3",),
        "subnet/campus": ("b3",),
    }


def test_a_choice_must_name_something_missing_in_the_state() -> None:
    with pytest.raises(UserError, match="--map instance/worker-2: the state has it, or site campus has none") as raised:
        matched([NETWORK, WORKER], {}, {"instance/worker-2": "s1"})
    assert "instance/worker-1" in str(raised.value.fix)


def test_a_rule_is_known_by_what_it_allows() -> None:
    """Its description may be another's; the group that it names is found by its own name."""
    groups = [
        creation("security-group", role, name=f"campus-{role.replace('_', '-')}")
        for role in ("kine", "kube_control_plane")
    ]
    rule = creation(
        *("security-group-rule", "kine-kine-kube_control_plane"),
        **{
            "direction": "ingress",
            "ethertype": "IPv4",
            "protocol": "tcp",
            "portRangeMin": 2379.0,
            "portRangeMax": 2379.0,
        },
    )
    values = {"security_group_id": "g1", "direction": "ingress", "ether_type": "IPv4", "protocol": "tcp"}
    ports = {"port_range_min": 2379, "port_range_max": 2379}
    objects = {
        "security-group": [CloudObject("g1", "campus-kine"), CloudObject("g2", "campus-kube-control-plane")],
        "security-group-rule": [
            CloudObject("r1", "", {**values, **ports, "remote_group_id": "g2", "description": "by hand"}),
            CloudObject("r2", "", {**values, **ports, "remote_ip_prefix": "0.0.0.0/0"}),
            CloudObject("r3", "", {**values, "port_range_min": 22, "port_range_max": 22, "remote_group_id": "g2"}),
        ],
    }
    key = "security-group-rule/kine-kine-kube_control_plane"
    assert matched([*groups, rule], objects)[key] == ("r1",)
    assert matched([*groups, rule], {**objects, "security-group": objects["security-group"][:1]})[key] == ()


def test_a_floating_ip_is_the_ports_or_one_that_the_site_described() -> None:
    creations = [NETWORK, WORKER, WORKER_PORT, creation("floating-ip", "worker-1", description="campus: worker-1")]
    objects = {
        "network": [CloudObject("n1", "campus")],
        "instance": [CloudObject("s1", "worker-1")],
        "port": [port("p1", device_id="s1")],
        "floating-ip": [
            CloudObject("f1", "", {"port_id": "p9", "description": "campus: worker-1"}),
            CloudObject("f2", "", {"port_id": None, "description": "campus: worker-1"}),
        ],
    }
    assert matched(creations, objects)["floating-ip/worker-1"] == ("f2",)
    bound = CloudObject("f3", "", {"port_id": "p1", "description": ""})
    assert matched(creations, {**objects, "floating-ip": [*objects["floating-ip"], bound]})["floating-ip/worker-1"] == (
        "f3",
    )


def test_a_routers_interface_is_its_port_in_the_subnet() -> None:
    creations = [
        *(NETWORK, creation("subnet", "campus", cidr="10.79.0.0/24"), creation("router", "router", name="campus")),
        creation("router-interface", "router-campus"),
    ]
    address = [{"subnet_id": "b1", "ip_address": "10.79.0.1"}]
    objects = {
        "network": [CloudObject("n1", "campus")],
        "subnet": [CloudObject("b1", "campus", {"network_id": "n1", "cidr": "10.79.0.0/24"})],
        "router": [CloudObject("r1", "campus")],
        "port": [
            port("p1", device_id="r1", device_owner="network:router_gateway", fixed_ips=address),
            port("p2", device_id="r1", device_owner="network:ha_router_replicated_interface", fixed_ips=address),
            port("p3", device_id="r1", device_owner="network:router_interface", fixed_ips=[{"subnet_id": "b2"}]),
        ],
    }
    assert matched(creations, objects)["router-interface/router-campus"] == ("p2",)


def test_kinds_come_after_those_that_they_refer_to() -> None:
    order = list(KINDS)
    assert order.index(INSTANCE) < order.index(PORT), "a port is found by its server"
    assert order.index(PORT) < order.index(TYPES["floating-ip"])
    assert order.index(TYPES["router"]) < order.index(TYPES["router-interface"])
