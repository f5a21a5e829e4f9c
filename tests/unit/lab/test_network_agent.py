"""The network agent: what it reads, what it makes of it, and when it acts."""

from __future__ import annotations

import json
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from strata_lab.network import nft
from strata_lab.network.agent import Agent, Places
from strata_lab.network.attachments import Attachment, attachments
from strata_lab.network.filtering import filter_table, link_local, rule_expression
from strata_lab.network.metadata import MetadataListener, MetadataProxies
from strata_lab.network.model import Rule, State
from strata_lab.network.routing import Surroundings, routing_table

from . import network_objects as small

AROUND = Surroundings("10.87.0.10", "cni-podman0", ("eth0",), ("10.255.0.53",))


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Files as neutron and podman write them."""
    small.write_records(tmp_path / "results")
    (tmp_path / "objects.json").write_text(json.dumps(small.objects()))
    return Places(tmp_path / "objects.json", tmp_path / "results")


@pytest.fixture
def attached(places: Places) -> list[Attachment]:
    return attachments(places.results, "lab")


class Kernel:
    """What nft was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.applied: list[str] = []
        self.held = ""
        self.refuses = False
        monkeypatch.setattr(nft, "apply", self.apply)
        monkeypatch.setattr(nft, "listing", lambda _: self.held)

    def apply(self, tables: dict[tuple[str, str], str]) -> None:
        if self.refuses:
            raise nft.NftError("syntax error")
        self.held = nft.replacement(tables)
        self.applied.append(self.held)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch)


@pytest.fixture
def agent(places: Places, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> Agent:  # no agent without the fake kernel
    made = Agent("lab", IPv4Network("10.87.0.0/24"), "10.87.0.10", places)
    served: set[MetadataListener] = set()
    # there is no bridge to listen on
    monkeypatch.setattr(MetadataProxies, "serve", lambda _, listeners: served.update(listeners))
    monkeypatch.setattr(MetadataProxies, "complete", property(lambda _: set(served)))
    return made


def chain(text: str, name: str) -> list[str]:
    """The lines of one chain."""
    body = text.split(f"  chain {name} {{\n")[1].split("  }\n")[0]
    return [line.strip() for line in body.splitlines()]


def change(places: Places, **changes: Any) -> None:
    """neutron has something else now."""
    partial = places.objects.with_suffix(".part")
    partial.write_text(json.dumps(small.objects(**changes)))
    partial.replace(places.objects)


def test_only_the_sites_interfaces_are_read(attached: list[Attachment]) -> None:
    assert [(a.interface, a.bridge, a.address) for a in attached] == [
        ("veth1", "cni-podman1", "10.1.0.11"),
        ("veth2", "cni-podman1", "10.1.0.12"),
        ("veth3", "cni-podman2", "10.2.0.13"),
    ]


def test_incomplete_records_are_left_for_later(places: Places) -> None:
    (places.results / "new").write_text('{"kind": "cniCa')
    assert len(attachments(places.results, "lab")) == 3


def test_a_remote_group_holds_its_members_and_what_they_may_send_from(attached: list[Attachment]) -> None:
    text = filter_table("lab", State.parse(small.objects()), attached)
    name = f"remote_{small.CLIENTS.replace('-', '')}_4"
    assert "elements = { 10.1.0.12, 10.2.0.13, 10.244.0.0/16 }" in text.split(f"set {name} {{")[1].split("}\n")[0] + "}"
    assert f"ether type ip ip saddr @{name} meta l4proto tcp th dport 80 accept" in text


def test_a_port_without_a_group_takes_answers_only(attached: list[Attachment]) -> None:
    state = State.parse(small.objects(ports=[small.port(1, small.BLUE, "10.1.0.11")]))
    lines = chain(filter_table("lab", state, attached), "ingress_veth1")
    assert not [line for line in lines if line.startswith("jump")]
    assert lines[-1] == "drop"


def test_without_port_security_everything_passes(attached: list[Attachment]) -> None:
    state = State.parse(small.objects(ports=[small.port(1, small.BLUE, "10.1.0.11", port_security_enabled=False)]))
    text = filter_table("lab", state, attached)
    assert [chain(text, f"{kind}_veth1") for kind in ("source", "egress", "ingress")] == [
        ["return"],
        ["accept"],
        ["accept"],
    ]


@pytest.mark.parametrize("ports", [[], [small.port(1, small.BLUE, "10.1.0.11", admin_state_up=False)]])
def test_an_interface_without_a_port_that_is_up_passes_nothing(
    attached: list[Attachment], ports: list[dict[str, Any]]
) -> None:
    text = filter_table("lab", State.parse(small.objects(ports=ports)), attached)
    assert {tuple(chain(text, f"{kind}_veth1")) for kind in ("source", "egress", "ingress")} == {("drop",)}


def test_an_instance_sends_from_its_own_addresses_only(attached: list[Attachment]) -> None:
    text = filter_table("lab", State.parse(small.objects()), attached)
    lines = chain(text, "source_veth2")
    assert "ether saddr fa:16:3e:00:00:02 ip saddr { 10.1.0.12, 10.244.0.0/16 } return" in lines
    assert all("fa:16:3e:00:00:02" in line for line in lines[:-1])
    assert lines[-1] == "drop"


@pytest.mark.parametrize(
    ("changes", "expression"),
    [
        ({}, "ether type ip"),
        ({"protocol": "any"}, "ether type ip"),
        ({"protocol": "tcp"}, "ether type ip meta l4proto tcp"),
        (
            {"protocol": "6", "port_range_min": 1, "port_range_max": 65535},
            "ether type ip meta l4proto 6 th dport 1-65535",
        ),
        ({"protocol": "vrrp"}, "ether type ip meta l4proto vrrp"),
        ({"protocol": "icmp", "port_range_min": 8}, "ether type ip meta l4proto icmp icmp type 8"),
        (
            {"protocol": "ipv6-icmp", "ethertype": "IPv6", "port_range_min": 128, "port_range_max": 0},
            "ether type ip6 meta l4proto ipv6-icmp icmpv6 type 128 icmpv6 code 0",
        ),
        ({"remote_ip_prefix": "192.0.2.7/24"}, "ether type ip ip saddr 192.0.2.0/24"),
        ({"remote_ip_prefix": "0.0.0.0/0"}, "ether type ip"),
        ({"direction": "egress", "remote_ip_prefix": "192.0.2.7/32"}, "ether type ip ip daddr 192.0.2.7/32"),
    ],
)
def test_rules_follow_neutron(changes: dict[str, Any], expression: str) -> None:
    assert rule_expression(Rule(**({"direction": "ingress", "ethertype": "IPv4"} | changes))) == expression


def test_link_local_address_follows_the_mac() -> None:
    assert link_local("fa:16:3e:66:af:83") == "fe80::f816:3eff:fe66:af83"


def test_networks_are_apart_unless_a_router_joins_them(attached: list[Attachment]) -> None:
    apart = chain(routing_table("lab", State.parse(small.objects()), attached, AROUND), "forward")
    assert '"cni-podman1" . "cni-podman2"' not in apart[1]
    router = {"id": "r", "subnets": [small.BLUE_SUBNET, small.GREEN_SUBNET], "external": False}
    state = State.parse(small.objects(routers=[router]))
    joined = chain(routing_table("lab", state, attached, AROUND), "forward")
    assert '"cni-podman1" . "cni-podman2"' in joined[1]
    assert "eth0" not in " ".join(joined)


def test_a_gateway_opens_the_way_out_and_to_the_public_services(attached: list[Attachment]) -> None:
    router = {"id": "r", "subnets": [small.BLUE_SUBNET], "external": True}
    lines = chain(routing_table("lab", State.parse(small.objects(routers=[router])), attached, AROUND), "forward")
    assert 'iifname { "cni-podman1" } oifname { "eth0" } accept' in lines
    (to_controller,) = [line for line in lines if "10.87.0.10" in line]
    assert "3306" not in to_controller
    assert "5000" in to_controller
    assert not [line for line in lines if '"cni-podman2" } oifname { "eth0" }' in line]


def test_only_the_sites_own_networks_reach_the_backup_store(attached: list[Attachment]) -> None:
    router = {"id": "r", "subnets": [small.BLUE_SUBNET], "external": True}
    state = State.parse(small.objects(routers=[router]))
    around = replace(AROUND, backup_store="10.87.0.9", clients=("10.1.0.0/24",))
    (rule,) = [line for line in chain(routing_table("lab", state, attached, around), "forward") if "10.87.0.9" in line]
    sources, target = "ip saddr { 10.1.0.0/24 }", 'oifname "cni-podman0" ip daddr 10.87.0.9 tcp dport 443'
    assert rule == f'iifname {{ "cni-podman1" }} {sources} {target} accept'
    assert "10.87.0.9" not in routing_table("lab", state, attached, AROUND)


def test_a_floating_ip_is_translated_both_ways(attached: list[Attachment]) -> None:
    address = {"address": "10.87.0.130", "fixed_address": "10.1.0.11", "network_id": small.PUBLIC}
    text = routing_table("lab", State.parse(small.objects(floating_ips=[address])), attached, AROUND)
    there = "dnat ip to ip daddr map { 10.87.0.130 : 10.1.0.11 }"
    assert there in chain(text, "floating_in")
    assert there in chain(text, "floating_from_host")
    assert any("snat ip to ip saddr map { 10.1.0.11 : 10.87.0.130 }" in line for line in chain(text, "floating_out"))
    assert any("10.87.0.130 . 10.1.0.11 } drop" in line for line in chain(text, "postrouting"))


def test_an_address_that_is_taken_away_ends_its_connections(attached: list[Attachment]) -> None:
    text = routing_table("lab", State.parse(small.objects()), attached, AROUND)
    assert chain(text, "postrouting")[-1].endswith("ct direction original ct status dnat drop")


def test_acts_on_changes_only(agent: Agent, kernel: Kernel, places: Places) -> None:
    assert agent.look()
    assert not agent.look()
    change(places, groups={})
    assert agent.look()
    assert len(kernel.applied) == 2


def test_an_interface_that_comes_up_is_taken_in(agent: Agent, kernel: Kernel, places: Places) -> None:
    agent.look()
    entry = small.record("lab", small.GREEN, "cni-podman2", "veth4", "10.2.0.14")
    (places.results / "four").write_text(json.dumps(entry))
    assert agent.look()
    assert '"veth4"' in kernel.applied[-1]


def test_tables_that_were_changed_are_put_back(agent: Agent, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.look()
    kernel.held = ""
    assert not agent.look()
    monkeypatch.setattr("strata_lab.network.agent.AUDIT_SECONDS", 0.0)
    assert agent.look()
    assert len(kernel.applied) == 2


def test_a_refused_ruleset_is_tried_again(agent: Agent, kernel: Kernel) -> None:
    kernel.refuses = True
    for _ in range(2):
        with pytest.raises(nft.NftError):
            agent.look()
    kernel.refuses = False
    assert agent.look()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"ports": 1}'])
def test_a_broken_file_keeps_what_is_in_force(agent: Agent, kernel: Kernel, places: Places, content: str) -> None:
    agent.look()
    places.objects.write_text(content)
    assert not agent.look()
    assert len(kernel.applied) == 1


def test_nothing_is_done_before_neutron_responds(agent: Agent, kernel: Kernel, places: Places) -> None:
    places.objects.unlink()
    assert not agent.look()
    assert kernel.applied == []
