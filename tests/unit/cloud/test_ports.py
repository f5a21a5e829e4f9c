"""Security groups of the lab, derived from the ports of the roles."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from strata.cloud.role_ports import security_group_arguments
from strata.models.access import Access
from strata.roles import FILE, Port, port, roles
from strata.site.openings import EVERY_HOST
from strata.site.paths import REPOSITORY
from strata.site_file.loader import load_site

GATEWAY = "10.77.0.1/32"
PODS = "10.244.0.0/16"
CLUSTER = {
    ("cluster-kube_control_plane", None, None, "kube_control_plane"),
    ("cluster-kube_node", None, None, "kube_node"),
    ("cluster-10.244.0.0-16", None, None, PODS),
}
LAB: dict[str, set[tuple[str, str | None, int | None, str]]] = {
    "nodes": {
        ("ssh-10.77.0.1-32", "tcp", 22, GATEWAY),
        ("node-exporter-kube_control_plane", "tcp", 9100, "kube_control_plane"),
        ("node-exporter-kube_node", "tcp", 9100, "kube_node"),
        ("ping-nodes", "icmp", None, "nodes"),
        ("ping-10.77.0.1-32", "icmp", None, GATEWAY),
    },
    "kine": {("kine-kube_control_plane", "tcp", 2379, "kube_control_plane")},
    "kube_control_plane": {*CLUSTER, ("kubernetes-api-10.77.0.1-32", "tcp", 6443, GATEWAY)},
    "kube_node": {*CLUSTER, ("ingress-load_balancer", "tcp", 30443, "load_balancer")},
    "load_balancer": {
        ("http-nodes", "tcp", 80, "nodes"),
        ("http-10.77.0.1-32", "tcp", 80, GATEWAY),
        ("https-nodes", "tcp", 443, "nodes"),
        ("https-10.77.0.1-32", "tcp", 443, GATEWAY),
    },
    "nfs_server": {("nfs-kube_node", "tcp", 2049, "kube_node")},
    "postgresql": {
        ("postgresql-kine", "tcp", 5432, "kine"),
        ("postgresql-kube_node", "tcp", 5432, "kube_node"),
    },
    "registry": {
        ("registry-kube_control_plane", "tcp", 5000, "kube_control_plane"),
        ("registry-kube_node", "tcp", 5000, "kube_node"),
        ("registry-10.77.0.1-32", "tcp", 5000, GATEWAY),
        ("registry-push-10.77.0.1-32", "tcp", 5001, GATEWAY),
    },
}


def test_security_groups_of_the_lab() -> None:
    site = load_site(REPOSITORY / "inventories" / "lab" / "site.yaml")
    assert site.cloud is not None
    groups = security_group_arguments(site, site.cloud)
    by_group = {g: {(r.name, r.protocol, r.port, r.source or r.group) for r in groups[g].ingress} for g in groups}
    assert by_group == LAB
    assert sum(len(group.ingress) for group in groups.values()) == sum(len(rules) for rules in LAB.values())
    assert next(iter(groups)) == EVERY_HOST
    assert groups["load_balancer"].name == "lab-load-balancer"


def test_several_api_servers_are_open_to_the_load_balancer_and_it_to_nodes_and_users() -> None:
    site = load_site(REPOSITORY / "inventories" / "campus" / "site.yaml")
    assert site.cloud is not None
    groups = security_group_arguments(site, site.cloud)
    open_to = {
        name: {rule.source or rule.group for rule in groups[name].ingress if rule.port == port("kube_control_plane")}
        for name in ("load_balancer", "kube_control_plane", "kube_node")
    }
    users = str(site.access.kubernetes_api[0])
    assert open_to == {
        "load_balancer": {"kube_control_plane", "kube_node", users},
        "kube_control_plane": {"load_balancer", users},
        "kube_node": set(),
    }


def test_networks_that_a_port_can_be_opened_to_are_those_of_access() -> None:
    annotation, _ = get_args(Port.model_fields["access"].annotation)
    assert set(get_args(annotation)) == set(Access.model_fields)


@pytest.fixture
def with_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Roles of a test in the place of the repository's."""
    for name in ("kube_control_plane", "kube_node"):
        (tmp_path / name).mkdir()
        (tmp_path / name / FILE).write_text("description: A role of a test.\n")
    monkeypatch.setattr("strata.site.openings.roles", lambda: roles(tmp_path))
    return tmp_path


def test_a_role_that_comes_with_others_opens_its_ports_there(with_role: Path) -> None:
    """To clients besides the nodes, which reach each other anyway."""
    role = with_role / "exporter"
    role.mkdir()
    (role / FILE).write_text(
        "description: A role of a test.\nruns_on: [kube_control_plane, kube_node]\n"
        "ports: [{name: metrics, port: 9100, clients: [hosts, nodes, pods]}]\n"
    )
    site = load_site(REPOSITORY / "inventories" / "lab" / "site.yaml")
    assert site.cloud is not None
    groups = security_group_arguments(site, site.cloud)
    for name in ("kube_control_plane", "kube_node"):
        rules = {(r.name, r.port, r.source or r.group) for r in groups[name].ingress if r.port}
        assert rules == {("metrics-nodes", 9100, "nodes")}
