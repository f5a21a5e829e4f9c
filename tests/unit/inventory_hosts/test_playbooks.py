"""What the playbooks get to know of the roles."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import UserError
from strata.inventory.playbooks import host_variables, playbook_roles
from strata.roles import DIRECTORY, roles, roles_of
from strata.scaffold.role import EXAMPLE, FIRST_PORT, new_role
from strata.site.host_list import running_roles
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site


def test_every_role_is_run_by_one_playbook() -> None:
    variables = playbook_roles()
    named = {"base", "volumes", "kubernetes_common", "kube_control_plane", "kube_node", "pod_network"}
    text = "".join(file.read_text() for file in (DIRECTORY.parent / "playbooks").glob("*.yml"))
    assert all(name in text for name in named)
    assert sorted([*variables["strata_host_roles"], *variables["strata_node_roles"], *named]) == sorted(roles())
    assert variables["strata_host_roles"].index("postgresql") < variables["strata_host_roles"].index("kine")


def test_a_host_installs_what_all_its_roles_need() -> None:
    variables = host_variables(roles_of(("postgresql", "kube_node")))
    assert {"curl", "postgresql", "containerd"} <= set(str(variables["base_packages"]).split("'"))
    assert variables["base_kernel_packages"] == ["chrony", "nfs-common"]
    assert variables["base_restarted_units"] == ["postgresql@"]


@pytest.mark.parametrize(("site", "by_roles"), [("campus", True), ("nautilus", False)])
def test_another_installer_brings_the_runtime_of_nodes(site: str, by_roles: bool) -> None:
    """The roles that remain bring what pods' volumes need."""
    variables = host_variables(running_roles(load_site(find_site(site)), ("kube_node",)))
    assert ("containerd" in str(variables["base_packages"])) == by_roles
    assert "nfs-common" in str(variables["base_kernel_packages"])


def test_the_node_exporter_reports_the_units_of_all_roles() -> None:
    """By the name in a container, and on a host with a kernel of its own."""
    units = host_variables(roles_of(("postgresql", "nfs_server", "kube_node")))["node_exporter_units"]
    assert isinstance(units, dict)
    assert units["nfs-ganesha"] == "nfs-server"
    assert {unit: units[unit] for unit in ("postgresql@*-main", "kubelet", "containerd")} == {
        "postgresql@*-main": "postgresql@*-main", "kubelet": "kubelet", "containerd": "containerd",
    }  # fmt: skip


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
