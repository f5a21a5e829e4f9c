"""Which control plane the cluster's keys come from, as Ansible evaluates the role's variables."""

from __future__ import annotations

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from .conftest import ROLES

CONTROL_PLANES = ("control-1", "control-2", "control-3")


@pytest.mark.parametrize(
    ("having", "on", "source"),
    [
        ((), "control-1", "control-1"),
        (("control-1",), "control-2", "control-1"),
        (CONTROL_PLANES, "control-1", "control-1"),
        (CONTROL_PLANES, "control-3", "control-1"),
        (("control-2", "control-3"), "control-1", "control-2"),
    ],
    ids=["new cluster", "the second joins", "the first again", "a member again", "the first is replaced"],
)
def test_keys_come_from_a_control_plane_that_has_them(having: tuple[str, ...], on: str, source: str) -> None:
    """From itself means that kubeadm makes those that are missing: a replaced host would make another cluster."""
    role = yaml.safe_load((ROLES / "kube_control_plane" / "vars" / "main.yml").read_text())
    variables = {
        "inventory_hostname": on,
        "__kube_control_plane_authorities": {
            "results": [{"item": name, "stat": {"exists": name in having}} for name in CONTROL_PLANES]
        },
    }
    expression = trust_as_template(role["_kube_control_plane_authority_host"])
    assert Templar(loader=DataLoader(), variables=variables).template(expression) == source
