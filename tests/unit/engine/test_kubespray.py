"""Kubespray's inventory and variables, and the playbooks that a change of the site needs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from strata.cli.main import app
from strata.cloud.arguments import further_networks
from strata.engine.ansible import PlaybookResult
from strata.errors import UserError
from strata.kubespray import run
from strata.kubespray.commands import Record, next_runs
from strata.kubespray.configuration import inventory_directory, write_configuration
from strata.kubespray.files import STATE, VARIABLES, public_files
from strata.kubespray.variables import FILE
from strata.models import find_site
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site.outputs import CloudOutputs, ClusterOutputs, InstanceOutput
from strata.toolchain.python_environment import Environment
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


def _text(_: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
    return str(node.value)


_Loader.add_constructor("!unsafe", _text)


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


def test_the_ports_of_control_planes_let_the_virtual_address_through(tacc: SiteContext) -> None:
    pods = str(tacc.site.cluster.pod_network) if tacc.site.cluster else ""
    assert further_networks(tacc.site, ("kube_control_plane",)) == (pods, "10.10.0.5")
    assert further_networks(tacc.site, ("kube_node",)) == (pods,)
    assert further_networks(tacc.site, ("nfs_server",)) == ()


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
    variables={"w1": "labels"},
    nodes={"c1": ("kube_control_plane",), "c2": ("kube_control_plane",), "w1": ("kube_node",)},
)


def change(**values: object) -> Record:
    return BEFORE.model_copy(update=values)


@pytest.mark.parametrize(
    ("desired", "expected"),
    [
        (BEFORE, []),
        (change(configuration="b"), ["cluster"]),
        (change(variables={"w1": "other labels"}), ["cluster"]),
        (change(configuration="b", nodes={**BEFORE.nodes, "w2": ("kube_node",)}), ["cluster"]),
        (change(nodes={**BEFORE.nodes, "w2": ("kube_node",)}), ["scale"]),
        (change(nodes={**BEFORE.nodes, "c3": ("kube_control_plane",)}), ["cluster"]),
        (change(nodes={**BEFORE.nodes, "w1": ("kube_node", "gpu_node")}), ["cluster"]),
        (change(nodes={n: r for n, r in BEFORE.nodes.items() if n != "w1"}), ["remove-node"]),
        (
            change(nodes={"c1": ("kube_control_plane",), "c2": ("kube_control_plane",), "w2": ("kube_node",)}),
            ["remove-node", "scale"],
        ),
        (change(kubernetes="1.36.0"), ["upgrade-cluster"]),
        (change(version="2.32.0"), ["upgrade-cluster"]),
    ],
)
def test_a_change_runs_the_playbook_that_it_needs(desired: Record, expected: list[str]) -> None:
    assert [one.playbook for one in next_runs(BEFORE, desired)] == expected
    assert [one.playbook for one in next_runs(Record(), desired)] == ["cluster"]


def test_a_removed_host_is_not_logged_into() -> None:
    (removal,) = next_runs(BEFORE, change(nodes={n: r for n, r in BEFORE.nodes.items() if n != "w1"}))
    assert (removal.variables["node"], removal.variables["reset_nodes"]) == ("w1", False)


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


class Kubespray:
    """In the place of Ansible: keeps the runs, fails where it should, writes the kubeconfig as upstream does."""

    def __init__(self, context: SiteContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ran: list[tuple[str, list[str]]] = []
        self.failing: set[str] = set()
        self.directory = inventory_directory(context.paths)
        environment = Environment("2.31.0", tmp_path / "environment")
        monkeypatch.setattr(run, "ensure_environment", lambda *_: environment)
        monkeypatch.setattr(run, "ensure_source", lambda *_: tmp_path / "source")
        monkeypatch.setattr(run, "add_known_hosts", lambda *_: None)
        monkeypatch.setattr(run, "follow_ansible", self.follow)

    def follow(self, command: list[str], *_: object, **__: object) -> tuple[PlaybookResult, int, list[str]]:
        playbook = Path(command[-1]).stem
        hosts = load(Path(command[2]))["all"]["hosts"]
        self.ran.append((playbook, [name for name in ("cic-worker-1", "cic-worker-2") if name in hosts]))
        (self.directory / "artifacts").mkdir(exist_ok=True)
        (self.directory / "artifacts" / "admin.conf").write_text("server: https://10.10.0.5:6443\n")
        return PlaybookResult(), int(playbook in self.failing), ["cic-control-1: no space left"]


def instances(context: SiteContext, **changes: InstanceOutput | None) -> None:
    """Stores the instances with some added, or removed (None)."""
    outputs = context.cloud_outputs
    assert outputs is not None
    found = {name: one for name, one in {**outputs.instances, **changes}.items() if one is not None}
    outputs.model_copy(update={"instances": found}).save(context.paths)


def test_runs_are_recorded_and_resumed(tacc: SiteContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Kubespray(tacc, tmp_path, monkeypatch)
    fake.failing.add("cluster")
    with pytest.raises(UserError, match="kubespray cluster: exit status 1: cic-control-1: no space left"):
        run.install(tacc, Silent())
    assert ClusterOutputs.load(tacc.paths) is None
    fake.failing.clear()
    assert run.install(tacc, Silent()).changed == 1
    assert ClusterOutputs.load(tacc.paths) == ClusterOutputs(
        api_endpoint="https://10.10.0.5:6443", kubernetes_version=load_versions().components["kubernetes"].version
    )
    assert tacc.paths.kubeconfig.read_text() == "server: https://10.10.0.5:6443\n"
    assert tacc.paths.kubeconfig.stat().st_mode & 0o777 == 0o600
    assert run.install(tacc, Silent()).changed == 0
    assert [playbook for playbook, _ in fake.ran] == ["cluster", "cluster"]


def test_a_host_is_replaced(tacc: SiteContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubespray finds the old one in the inventory that still has it, and a failure after that does not repeat it."""
    fake = Kubespray(tacc, tmp_path, monkeypatch)
    run.install(tacc, Silent())
    fake.ran.clear()
    assert tacc.cloud_outputs is not None
    worker = tacc.cloud_outputs.instances["cic-worker-1"]
    new = worker.model_copy(update={"name": "cic-worker-2", "address": "10.10.0.99"})
    instances(tacc, **{"cic-worker-1": None, "cic-worker-2": new})
    fake.failing.add("scale")
    with pytest.raises(UserError, match="kubespray scale"):
        run.install(tacc, Silent())
    fake.failing.clear()
    run.install(tacc, Silent())
    assert fake.ran == [
        ("remove-node", ["cic-worker-1"]),
        ("scale", ["cic-worker-2"]),
        ("scale", ["cic-worker-2"]),
    ]
    assert run.prepare(tacc) == []


def test_the_command_shows_what_would_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_STATE_DIR", str(tmp_path))
    shown = CliRunner().invoke(app, ["kubespray", "nautilus"])
    assert shown.exit_code == 0, shown.output
    assert f"inventory: {tmp_path}/nautilus/kubespray" in shown.output
    assert "cluster.yml would run: the cluster is not installed" in shown.output


def test_another_installer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_STATE_DIR", str(tmp_path))
    with pytest.raises(UserError, match="installer = kubeadm: Kubespray does not install this cluster"):
        run.prepare(SiteContext.load(find_site("lab")))
