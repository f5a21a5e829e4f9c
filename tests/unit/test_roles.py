"""role.yaml of every role: right, complete, and the only place that states it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from strata.errors import UserError
from strata.models.hosts import Hosts
from strata.roles import DIRECTORY, FILE, Role, assignable_roles, roles, roles_of
from strata.verify.plugin import CHECKS as CHECKS_OF_ALL

CHECKS = [*CHECKS_OF_ALL.glob("test_*.py"), *DIRECTORY.glob("*/checks/test_*.py")]


def write(directory: Path, name: str, text: str) -> None:
    """One role."""
    file = directory / name / FILE
    file.parent.mkdir(parents=True)
    file.write_text(f"description: A role of a test.\n{text}")


def test_every_folder_is_a_role() -> None:
    # those of the lab's OpenStack are on its controller, which is not a host of a site
    folders = {folder.name for folder in DIRECTORY.iterdir() if not folder.name.startswith("openstack_")}
    assert folders == set(roles())
    assert all(re.fullmatch("[a-z][a-z0-9_]*", name) for name in folders)


@pytest.mark.parametrize("name", roles())
def test_what_a_role_names_is_there(name: str) -> None:
    role = roles()[name]
    known = set(re.findall(r"^def test_(\w+)", "".join(file.read_text() for file in CHECKS), re.MULTILINE))
    assert role.verified_by
    assert set(role.verified_by) <= known
    assert role.needs.section is None or role.needs.section.key in Hosts.model_fields
    defaults = yaml.safe_load((DIRECTORY / name / "defaults" / "main.yml").read_text())
    assert defaults.get(f"{name}_port", role.ports[0].port if role.ports else None) in {
        None,
        *(p.port for p in role.ports),
    }
    assert f"{name}_packages" not in defaults or name == "base", "packages are listed in role.yaml"


def test_roles_run_after_those_that_they_need() -> None:
    order = list(roles())
    for name, role in roles().items():
        assert all(
            order.index(other) < order.index(name) for other in (*role.needs.on_host, *role.needs.on_site, *role.after)
        )


def test_hosts_have_the_roles_that_come_with_theirs() -> None:
    assert roles_of(("kube_node",)) == (
        *("base", "kubernetes_common", "node_exporter", "pod_network"),
        "kube_node",
    )
    assert roles_of(("registry",)) == ("base", "node_exporter", "registry")
    assert {"base", "kubernetes_common", "pod_network"}.isdisjoint(assignable_roles())


def test_every_key_is_described() -> None:
    pending = [Role]
    while pending:
        for field in pending.pop().model_fields.values():
            assert field.description


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("port: 80\n", "port: Extra inputs"),
        ("ports: [{name: a, port: 80, clients: [World]}]\n", "ports.0.clients.0"),
        ("ports: [{name: a, port: 80, clients: [world]}]\n", "there is no role world"),
        ("ports: [{name: a, port: 80, access: world}]\n", "ports.0.access"),
        ("ports: [{name: a, port: 80}]\n", "give clients, access or both"),
        ("ports: [{name: a, port: 80, unit: b, access: ssh}]\n", "ports name the units b"),
        ("packages: [Not A Package]\n", "packages.0"),
        ("needs: {on_site: [nothing]}\n", "there is no role nothing"),
        ("needs: {on_site: [greeter]}\n", "greeter → greeter"),
        ("after: [nothing]\n", "there is no role nothing"),
        ("units: [\n", "did not find expected node content"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str, why: str) -> None:
    write(tmp_path, "greeter", text)
    with pytest.raises(UserError, match=re.escape(why)):
        roles(tmp_path)


def test_unit_file_of_a_template() -> None:
    assert [unit.file for unit in roles()["postgresql"].units] == ["postgresql@"]
    assert [unit.file for unit in roles()["registry"].units] == ["docker-registry", "docker-registry-push"]
