"""Kubespray's inventory and variables, and the playbooks that a change of the site needs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.errors import UserError
from strata.kubespray.commands import Record, next_runs
from strata.kubespray.configuration import inventory_directory, write_configuration
from strata.kubespray.files import STATE, VARIABLES, public_files
from strata.kubespray.variables import FILE
from strata.models import find_site
from strata.site.context import SiteContext
from strata.site.outputs import CloudOutputs, InstanceOutput
from strata.toolchain.versions import load_versions

SECTION = """  kubespray:
    network_plugin: cilium
    api_address: 10.10.0.5
    files_url: https://mirror.example.org/files/
    registry_mirrors: [{name: docker.io, url: "http://mirror.example.org:5000", insecure: true}]
  gpu_nodes:"""


@pytest.fixture
def tacc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteContext:
    """TACC with a virtual address, mirrors, and its instances."""
    return deployed(tmp_path, monkeypatch, SECTION)


def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str = "  gpu_nodes:") -> SiteContext:
    monkeypatch.setenv("STRATA_STATE_DIR", str(tmp_path / "state"))
    file = tmp_path / "tacc" / "site.yaml"
    file.parent.mkdir()
    text = find_site("tacc").read_text()
    file.write_text(text.replace("  gpu_nodes:", section, 1))
    (file.parent / "catalogue.json").write_bytes((find_site("tacc").parent / "catalogue.json").read_bytes())
    context = SiteContext.load(file)
    assert context.site.cloud is not None
    instances = {
        instance.name: InstanceOutput(
            id=str(number),
            name=instance.name,
            address=f"10.10.0.{number}",
            flavor=instance.flavor,
            roles=instance.roles,
        )
        for number, instance in enumerate(context.site.cloud.instances, start=11)
    }
    context.paths.create()
    CloudOutputs(instances=instances, networks={}).save(context.paths)
    return context


class _Loader(yaml.SafeLoader):
    """Reads Ansible's own tag."""


_Loader.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))


def load(file: Path) -> dict[str, Any]:
    found = yaml.load(file.read_text(), _Loader)  # noqa: S506  # a safe loader
    assert isinstance(found, dict)
    return found


def known() -> set[str]:
    return {name for names in json.loads(FILE.read_text())["variables"].values() for name in names}


def references(value: object) -> Iterator[str]:
    """Variables that Jinja expressions in a value begin with."""
    if isinstance(value, str):
        yield from re.findall(r"{{\s*([a-z_0-9]+)", value)
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from references(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from references(one)


def test_the_names_are_those_of_the_pinned_version() -> None:
    """tests/contract/kubespray compares them with the source, where it is available."""
    names, pinned = json.loads(FILE.read_text()), load_versions().environments["kubespray"]
    assert pinned.source is not None
    assert (names["version"], names["commit"]) == (pinned.version, pinned.source.commit)


@pytest.mark.parametrize("section", ["  gpu_nodes:", SECTION], ids=["defaults", "everything"])
def test_kubespray_knows_every_variable(section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = deployed(tmp_path, monkeypatch, section)
    write_configuration(context)
    directory = inventory_directory(context.paths)
    inventory = load(directory / "hosts.yml")["all"]
    state = load(directory / STATE)
    assert all(name.startswith("strata_") for name in state)
    sets = [load(file) for file in directory.rglob("group_vars/**/*.yml") if file != directory / STATE]
    sets += inventory["hosts"].values()
    assert len(sets) == 2 + 7
    ansible = {"ansible_user", "ansible_become", "ansible_ssh_private_key_file", "ansible_ssh_common_args"}
    used = {name for one in sets for name in one} - ansible
    assert used - known() == set()
    assert len(used) > 25
    assert set(references(sets)) - known() - set(state) == set()
    groups = {*json.loads(FILE.read_text())["groups"], "gpu_node"}
    assert set(inventory["children"]) - groups == set()


def test_what_follows_from_the_site_file(tacc: SiteContext) -> None:
    assert write_configuration(tacc) == 4
    assert write_configuration(tacc) == 0
    directory = inventory_directory(tacc.paths)
    assert {file.stat().st_mode & 0o777 for file in directory.rglob("*.yml")} == {0o600}
    inventory = load(directory / "hosts.yml")["all"]
    assert set(inventory["children"]["kube_control_plane"]["hosts"]) == {f"cic-control-{n}" for n in (1, 2, 3)}
    assert inventory["hosts"]["cic-gpu01"]["node_labels"] == {"gpu": "v100", "strata.dev/accelerator.v100": "true"}
    variables = load(directory / VARIABLES)
    assert variables["kube_version"] == load_versions().components["kubernetes"].version
    assert variables["loadbalancer_apiserver"] == {"address": "10.10.0.5", "port": 6443}
    assert variables["github_url"] == "https://mirror.example.org/files/github.com"
    own, other = variables["containerd_registries_mirrors"]
    assert own["prefix"] == "registry.ml.tacc.example.org:5000"
    assert own["mirrors"][0]["host"] == "https://10.10.0.12:5000"
    assert (other["prefix"], other["mirrors"][0]["skip_verify"]) == ("docker.io", True)
    (issuer,) = variables["kube_apiserver_authentication_config_jwt"]
    assert issuer["issuer"]["url"].startswith("https://login.ml.tacc.example.org")
    gpu = load(directory / "group_vars/gpu_node/strata.yml")
    assert gpu["node_taints"] == ["nvidia.com/gpu=present:NoSchedule"]
    assert [runtime["name"] for runtime in gpu["containerd_additional_runtimes"]] == ["nvidia"]


def test_secrets_are_in_one_file(tacc: SiteContext) -> None:
    tacc.secrets.ensure_ca()
    write_configuration(tacc)
    directory = inventory_directory(tacc.paths)
    state = load(directory / STATE)
    assert len(state["strata_encryption_key"]) == 32
    assert state["strata_issuer_ca"] == tacc.secrets.ca
    assert state["strata_registry_authorization"].startswith("Basic ")
    public = "".join(public_files(tacc.site, tacc.cloud_outputs).values())
    assert not [value for value in state.values() if value in public]


def test_a_site_without_instances_names_the_command(tacc: SiteContext) -> None:
    (tacc.paths.outputs / CloudOutputs.file_name).unlink()
    with pytest.raises(UserError, match="no deployed host has the role kube_control_plane") as caught:
        write_configuration(tacc)
    assert caught.value.fix == "run `strata up tacc --layer cloud`"


BEFORE = Record(
    version="2.31.0",
    kubernetes="1.35.4",
    configuration="a",
    nodes={"c1": ("kube_control_plane",), "c2": ("kube_control_plane",), "w1": ("kube_node",)},
)


def change(**values: object) -> Record:
    return BEFORE.model_copy(update={"configuration": "b", **values})


@pytest.mark.parametrize(
    ("desired", "expected"),
    [
        (BEFORE, []),
        (change(), [("cluster", ())]),
        (change(nodes={**BEFORE.nodes, "w2": ("kube_node",)}), [("scale", ("w2",))]),
        (change(nodes={**BEFORE.nodes, "c3": ("kube_control_plane",)}), [("cluster", ())]),
        (change(nodes={**BEFORE.nodes, "w1": ("kube_node", "gpu_node")}), [("cluster", ())]),
        (change(nodes={n: r for n, r in BEFORE.nodes.items() if n != "w1"}), [("remove-node", ())]),
        (
            change(nodes={"c1": ("kube_control_plane",), "c2": ("kube_control_plane",), "w2": ("kube_node",)}),
            [("remove-node", ()), ("scale", ("w2",))],
        ),
        (change(kubernetes="1.36.0"), [("upgrade-cluster", ())]),
        (change(version="2.32.0"), [("upgrade-cluster", ())]),
    ],
)
def test_a_change_runs_the_playbook_that_it_needs(desired: Record, expected: list[tuple[str, tuple[str, ...]]]) -> None:
    assert [(run.playbook, run.limit) for run in next_runs(BEFORE, desired)] == expected
    assert [run.playbook for run in next_runs(Record(), desired)] == ["cluster"]


def test_a_removed_host_is_not_logged_into() -> None:
    (run,) = next_runs(BEFORE, change(nodes={n: r for n, r in BEFORE.nodes.items() if n != "w1"}))
    assert (run.variables["node"], run.variables["reset_nodes"]) == ("w1", False)


@pytest.mark.parametrize(
    ("desired", "message"),
    [
        (change(kubernetes="1.37.0"), "one minor version at a time"),
        (change(kubernetes="1.34.1"), "one minor version at a time"),
        (change(nodes={n: r for n, r in BEFORE.nodes.items() if n != "c1"}), "cannot remove the first control plane"),
    ],
)
def test_what_kubespray_cannot_do_is_refused(desired: Record, message: str) -> None:
    with pytest.raises(UserError, match=message):
        next_runs(BEFORE, desired)
