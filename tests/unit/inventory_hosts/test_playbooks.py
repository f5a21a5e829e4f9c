"""What the playbooks are told of the roles."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import UserError
from strata.inventory.playbooks import host_variables, playbook_roles
from strata.roles import DIRECTORY, roles
from strata.scaffold.new_role import EXAMPLE, FIRST_PORT, new_role


def test_every_role_is_run_by_one_playbook() -> None:
    told = playbook_roles()
    named = {"base", "kubernetes_common", "kube_control_plane", "kube_node", "pod_network"}
    text = "".join(file.read_text() for file in (DIRECTORY.parent / "playbooks").glob("*.yml"))
    assert all(name in text for name in named)
    assert sorted([*told["strata_host_roles"], *told["strata_node_roles"], *named]) == sorted(roles())
    assert told["strata_host_roles"].index("postgresql") < told["strata_host_roles"].index("kine")


def test_a_host_installs_what_all_its_roles_need() -> None:
    found = host_variables(("postgresql", "kube_node"))
    assert {"curl", "postgresql", "containerd"} <= set(str(found["base_packages"]).split("'"))
    assert found["base_kernel_packages"] == ["chrony", "nfs-common"]
    assert found["base_restarted_units"] == ["postgresql@"]


def test_another_installer_brings_the_packages_of_nodes() -> None:
    assert "containerd" not in str(host_variables(("kube_node",), kubeadm=False)["base_packages"])


def test_a_new_role_has_its_name_everywhere_and_a_free_port(tmp_path: Path) -> None:
    taken = new_role("first", tmp_path)
    folder = new_role("mail_relay", tmp_path)
    texts = {file: file.read_text() for file in folder.rglob("*") if file.is_file()}
    assert roles(tmp_path)["mail_relay"].port() == FIRST_PORT + 1
    assert str(FIRST_PORT) in (taken / "role.yaml").read_text()
    for word in (EXAMPLE, EXAMPLE.replace("_", "-"), f"{FIRST_PORT}\n"):
        assert not [file for file, text in texts.items() if word in text or word in file.name]


@pytest.mark.parametrize("name", ["Mail", "mail-relay", "1st", "a__b", "", "../etc", "a" * 41])
def test_a_wrong_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="not a name of a role"):
        new_role(name, tmp_path)


def test_a_role_that_is_there_stays(tmp_path: Path) -> None:
    new_role("mail_relay", tmp_path)
    with pytest.raises(UserError, match="exists already"):
        new_role("mail_relay", tmp_path)
