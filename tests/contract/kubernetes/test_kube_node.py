"""Which machines the role kube_node lets join, as Ansible evaluates its variables."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from .conftest import ROLES, Kubeadm

AUTHORITY = "the cluster's certificate"
CHECKSUM = hashlib.sha1(AUTHORITY.encode(), usedforsecurity=False).hexdigest()
NOTHING = [{"stat": {"exists": False}}] * 3
MEMBER = [{"stat": {"exists": True}}, {"stat": {"exists": True, "checksum": CHECKSUM}}, {"stat": {"exists": False}}]
# as kill -9 leaves it: kubeadm has written the authority and the token, the kubelet has no credentials yet
INTERRUPTED = [{"stat": {"exists": False}}, MEMBER[1], {"stat": {"exists": True}}]
ELSEWHERE = [MEMBER[0], {"stat": {"exists": True, "checksum": "of another authority"}}, MEMBER[2]]


def evaluated(name: str, *hosts: list[Any]) -> Any:
    """A variable of the role, on the first of machines with these files; in the order of the role's preflight."""
    role = yaml.safe_load((ROLES / "kube_node" / "vars" / "main.yml").read_text())
    names = [f"worker-{number}" for number in range(len(hosts))]
    files = [{"results": results} for results in hosts]
    variables = {
        **{key: trust_as_template(value) if isinstance(value, str) else value for key, value in role.items()},
        "ansible_play_hosts": names,
        "hostvars": {name: {"__kube_node_files": registered} for name, registered in zip(names, files, strict=True)},
        "__kube_node_files": files[0],
        "__kube_node_authority": {"content": base64.b64encode(AUTHORITY.encode()).decode()},
    }
    return Templar(loader=DataLoader(), variables=variables).template(trust_as_template("{{ " + name + " }}"))


@pytest.mark.parametrize(
    ("files", "member", "remains"),
    [(NOTHING, False, False), (MEMBER, True, False), (INTERRUPTED, False, True), (ELSEWHERE, False, True)],
    ids=["new", "member", "interrupted", "of another cluster"],
)
def test_who_joins_and_who_is_reset_before(files: list[Any], member: bool, remains: bool) -> None:
    assert evaluated("_kube_node_member", files) is member
    assert evaluated("_kube_node_remains", files) is remains


@pytest.mark.parametrize(
    ("hosts", "joins"),
    [
        ([MEMBER, MEMBER], False),
        ([NOTHING, MEMBER], True),
        ([MEMBER, NOTHING], True),
        ([MEMBER, INTERRUPTED], True),
        ([ELSEWHERE, MEMBER], True),
        ([MEMBER], False),
    ],
)
def test_a_token_is_made_where_any_machine_joins(hosts: list[list[Any]], joins: bool) -> None:
    """Whichever comes first in the play: it makes the token for all."""
    assert evaluated("_kube_node_any_joins", *hosts) is joins


def test_kubeadm_knows_what_the_role_leaves_out(kubeadm: Kubeadm) -> None:
    """An unknown phase would be no error."""
    tasks = (ROLES / "kube_node" / "tasks" / "configure.yml").read_text()
    (phase,) = [line.split("=")[1].strip() for line in tasks.splitlines() if "--skip-phases=" in line]
    phases = kubeadm("join", "--help").stdout.partition("phases:")[2].partition("Usage:")[0]
    assert phase in phases.split()
