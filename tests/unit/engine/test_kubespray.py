"""Kubespray's inventory and variables, and its runs."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from strata.cli.lifecycle_choice import lifecycle_of
from strata.cli.main import app
from strata.cloud.arguments import further_networks
from strata.drift_model import Drift
from strata.engine.ansible import PlaybookResult
from strata.engine.up_steps import up_steps
from strata.errors import UserError
from strata.installers.kubespray import installer, marks, run
from strata.installers.kubespray.commands import Record
from strata.installers.kubespray.configuration import inventory_directory, write_configuration
from strata.installers.kubespray.files import DOWNLOADS, NAMES, STATE, VARIABLES, public_files
from strata.installers.kubespray.source import archive_name, pinned
from strata.installers.kubespray.variables import FILE
from strata.layers import Layer, StepResult
from strata.models.kubespray import STRATA_SETS
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site.outputs import CloudOutputs, ClusterOutputs, InstanceOutput
from strata.site_file.checks.kubespray import known_variables
from strata.site_file.inventories import find_site
from strata.toolchain.python_environment import Environment
from strata.toolchain.versions import load_versions

SECTION = """  kubespray:
    network_plugin: cilium
    api_address: 10.10.0.5
    images: site
    variables: {kubelet_fail_swap_on: false}
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


PER_HOST = {"ansible_host", "ansible_ssh_common_args", "etcd_access_address", "etcd_member_name", "ip"}


class _Loader(yaml.SafeLoader):
    """Reads Ansible's own tag."""


def _text(_: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
    return str(node.value)


_Loader.add_constructor("!unsafe", _text)


def load(file: Path) -> dict[str, Any]:
    content = yaml.load(file.read_text(), _Loader)  # noqa: S506  # a safe loader
    assert isinstance(content, dict)
    return content


def references(value: object) -> Iterator[str]:
    """Variables that Jinja expressions in a value begin with."""
    if isinstance(value, str):
        yield from re.findall(r"{{\s*([a-z_0-9]+)", value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from references(item)


def test_the_names_are_those_of_the_pinned_version() -> None:
    """tests/contract/kubespray compares them with the source, where it is available."""
    names, pinned = json.loads(FILE.read_text()), load_versions().environments["kubespray"]
    assert pinned.source is not None
    assert (names["version"], names["commit"]) == (pinned.version, pinned.source.commit)


def test_an_etcd_member_is_found_without_facts_of_its_host(tacc: SiteContext) -> None:
    """remove-node.yml looks for its peer URL, which Kubespray makes of a fact; a host that is gone has none."""
    write_configuration(tacc)
    hosts = load(inventory_directory(tacc.paths) / "hosts.yml")["all"]["hosts"]
    members = {name: host["etcd_access_address"] for name, host in hosts.items() if "etcd_access_address" in host}
    assert members == {f"cic-control-{n}": hosts[f"cic-control-{n}"]["ansible_host"] for n in (1, 2, 3)}


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
    assert len(sets) == 3 + 7
    ansible = {"ansible_user", "ansible_become", "ansible_ssh_private_key_file", "ansible_ssh_common_args"}
    used = {name for names in sets for name in names} - ansible
    assert used - known_variables() == set()
    assert {name for names in sets for name in names} - {"kubelet_fail_swap_on"} <= STRATA_SETS | PER_HOST | set(
        DOWNLOADS
    )
    assert len(used) > 25
    assert set(references(sets)) - known_variables() - set(state) == set()
    groups = {*json.loads(FILE.read_text())["groups"], "gpu_node"}
    assert set(inventory["children"]) - groups == set()


def test_what_follows_from_the_site_file(tacc: SiteContext) -> None:
    assert write_configuration(tacc) == 5
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
    assert variables["kube_image_repo"] == "registry.ml.tacc.example.org:5000/kubernetes"
    assert variables["kubelet_fail_swap_on"] is False
    names = load(directory / NAMES)["dns_etchosts"].splitlines()
    assert "10.10.0.12 login.ml.tacc.example.org" in names
    assert "10.10.0.12 registry.ml.tacc.example.org" in names
    gpu = load(directory / "group_vars/gpu_node/strata.yml")
    assert gpu["node_taints"] == ["nvidia.com/gpu=present:NoSchedule"]
    assert [runtime["name"] for runtime in gpu["containerd_additional_runtimes"]] == ["nvidia"]


@pytest.mark.parametrize(("plugin", "tries"), [("routes", 0), ("calico", None)])
def test_a_new_control_plane_is_not_ready_before_its_pod_network(
    plugin: str, tries: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `routes`, Strata's role follows Kubespray; without retries, Ansible does not evaluate the condition."""
    context = deployed(tmp_path, monkeypatch, f"  kubespray: {{network_plugin: {plugin}}}\n  gpu_nodes:")
    write_configuration(context)
    variables = load(inventory_directory(context.paths) / VARIABLES)
    assert variables.get("control_plane_node_become_ready_tries") == tries


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


class Kubespray:
    """In the place of Ansible and the nodes: keeps the runs, fails where it should, writes what upstream does."""

    def __init__(self, context: SiteContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ran: list[tuple[str, list[str]]] = []
        self.failing: set[str] = set()
        self.drift: list[Drift] = []
        self.kubectl: list[tuple[str, ...]] = []
        self.recorded = 0
        self.directory = inventory_directory(context.paths)
        environment = Environment("2.31.0", tmp_path / "environment")
        monkeypatch.setattr(run, "ensure_environment", lambda *_: environment)
        monkeypatch.setattr(run, "ensure_source", lambda *_: tmp_path / "source")
        monkeypatch.setattr(run, "wait_for_ssh", lambda *_: None)
        monkeypatch.setattr(run, "follow_ansible", self.follow)
        monkeypatch.setattr(run, "record_nodes", self.record)
        monkeypatch.setattr(installer, "settled_hosts_drift", lambda *_: self.drift)
        monkeypatch.setattr(installer, "cluster_drift", lambda *_: [])
        monkeypatch.setattr(installer, "playbook_step", lambda *_: lambda _: StepResult(0, "7 hosts"))
        monkeypatch.setattr(marks, "kubectl", lambda _, *words: self.kubectl.append(words))

    def record(self, _: SiteContext) -> None:
        self.recorded += 1

    def follow(self, command: list[str], *_: object, **__: object) -> tuple[PlaybookResult, int, list[str]]:
        playbook = Path(command[-1]).stem
        hosts = load(Path(command[2]))["all"]["hosts"]
        if "--tags" in command:
            playbook += f" --tags {command[command.index('--tags') + 1]}"
        self.ran.append((playbook, [name for name in ("cic-worker-1", "cic-worker-2") if name in hosts]))
        (self.directory / "artifacts").mkdir(exist_ok=True)
        config = {"clusters": [{"name": "cluster.local", "cluster": {"server": "https://10.10.0.13:6443"}}]}
        (self.directory / "artifacts" / "admin.conf").write_text(yaml.safe_dump(config))
        return PlaybookResult(), int(playbook in self.failing), ["cic-control-1: no space left"]


def install(context: SiteContext, *, thorough: bool = False) -> StepResult:
    return installer.KubesprayInstaller().install(context, Silent(), thorough=thorough)


def instances(context: SiteContext, **changes: InstanceOutput | None) -> None:
    """Stores the instances with some added, or removed (None)."""
    outputs = context.cloud_outputs
    assert outputs is not None
    by_name = {name: instance for name, instance in {**outputs.instances, **changes}.items() if instance is not None}
    outputs.model_copy(update={"instances": by_name}).save(context.paths)


def test_runs_are_recorded_and_resumed(tacc: SiteContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Kubespray(tacc, tmp_path, monkeypatch)
    fake.failing.add("cluster")
    with pytest.raises(UserError, match="kubespray cluster: exit status 1: cic-control-1: no space left"):
        install(tacc)
    assert not tacc.paths.kubeconfig.exists()
    assert fake.recorded == 0
    fake.failing.clear()
    assert install(tacc).changed == 1
    assert yaml.safe_load(tacc.paths.kubeconfig.read_text())["clusters"][0]["cluster"] == {
        "server": "https://10.10.0.5:6443"
    }
    assert tacc.paths.kubeconfig.stat().st_mode & 0o777 == 0o600
    again = install(tacc)
    assert (again.changed, again.detail) == (
        0,
        "Kubespray skipped: no change since its last success, no drift; 7 hosts",
    )
    assert [playbook for playbook, _ in fake.ran] == ["cluster", "cluster"]
    assert fake.recorded == 1


def drift(name: str, property_name: str, desired: str, actual: str) -> Drift:
    return Drift(layer=Layer.CLUSTER, object=name, property=property_name, wanted=desired, found=actual)


def test_drift_of_a_node_runs_kubespray(tacc: SiteContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Kubespray(tacc, tmp_path, monkeypatch)
    install(tacc)
    fake.drift = [
        drift("cic-worker-1: kubelet", "ActiveState", "active", "failed"),
        drift("node cic-worker-1", "state", "Ready", "KubeletNotReady"),
    ]
    result = install(tacc)
    assert result.detail.startswith("cluster (cic-worker-1: kubelet: ActiveState is failed and 1 more): 0 changed; ")
    assert len(fake.ran) == 2


def test_marks_of_nodes_are_restored_without_kubespray(
    tacc: SiteContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Kubespray(tacc, tmp_path, monkeypatch)
    install(tacc)
    fake.drift = [
        drift("node cic-gpu01", "unschedulable", "false", "true"),
        drift("node cic-gpu01", "label gpu", "v100", "none"),
        drift("node cic-gpu01", "taint", "nvidia.com/gpu=present:NoSchedule", "none"),
    ]
    assert install(tacc).changed == 3
    assert len(fake.ran) == 1
    assert fake.kubectl == [
        ("uncordon", "cic-gpu01"),
        ("label", "node", "cic-gpu01", "gpu=v100", "--overwrite"),
        ("taint", "node", "cic-gpu01", "nvidia.com/gpu=present:NoSchedule", "--overwrite"),
    ]


def test_thorough_runs_kubespray(tacc: SiteContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Kubespray(tacc, tmp_path, monkeypatch)
    install(tacc)
    result = install(tacc, thorough=True)
    assert (result.changed, result.detail.partition(":")[0]) == (0, "cluster (asked for)")
    assert len(fake.ran) == 2


def test_a_host_is_replaced(tacc: SiteContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubespray finds the old one in the inventory that still has it, and a failure after that does not repeat it."""
    fake = Kubespray(tacc, tmp_path, monkeypatch)
    install(tacc)
    fake.ran.clear()
    assert tacc.cloud_outputs is not None
    worker = tacc.cloud_outputs.instances["cic-worker-1"]
    new = worker.model_copy(update={"name": "cic-worker-2", "address": "10.10.0.99"})
    instances(tacc, **{"cic-worker-1": None, "cic-worker-2": new})
    fake.failing.add("scale")
    with pytest.raises(UserError, match="kubespray scale"):
        install(tacc)
    fake.failing.clear()
    install(tacc)
    assert fake.ran == [
        ("remove-node", ["cic-worker-1"]),
        ("scale", ["cic-worker-2"]),
        ("scale", ["cic-worker-2"]),
    ]
    assert run.prepare(tacc) == []


def test_a_new_address_of_a_service_reaches_coredns_alone(
    tacc: SiteContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Kubespray(tacc, tmp_path, monkeypatch)
    install(tacc)
    fake.ran.clear()
    assert tacc.cloud_outputs is not None
    storage = tacc.cloud_outputs.instances["cic-storage"].model_copy(update={"address": "10.10.0.98"})
    instances(tacc, **{"cic-storage": storage})
    install(tacc)
    assert [playbook for playbook, _ in fake.ran] == ["cluster --tags coredns"]


def test_a_silent_host_stops_the_run_before_it_starts(
    tacc: SiteContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one with another host key: nothing runs, and nothing is taken for half done."""
    fake = Kubespray(tacc, tmp_path, monkeypatch)

    def changed_key(*_: object) -> None:
        raise UserError("cic-worker-1 (10.10.0.16) has another SSH host key", fix="--replace cic-worker-1")

    monkeypatch.setattr(run, "wait_for_ssh", changed_key)
    with pytest.raises(UserError, match="another SSH host key"):
        install(tacc)
    assert fake.ran == []
    assert Record.load(tacc.paths) is None


def test_a_missing_source_stops_up_before_the_cloud(
    tacc: SiteContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first steps of `up` are those that need no host, and every step that changes something follows them."""
    steps = {step.name: step for step in up_steps(tacc, lifecycle_of(tacc), tuple(Layer))}
    assert list(steps)[:5] == ["Kubernetes version", "control planes", "Kubespray", "platform tools", "keys"]
    assert set(steps["keys"].after) == {"Kubernetes version", "control planes", "Kubespray", "platform tools"}
    mirror = tmp_path / "mirror" / "kubespray" / pinned()[0]
    mirror.mkdir(parents=True)
    (mirror / f"{archive_name()}.tar.gz").write_bytes(gzip.compress(b"another archive"))
    monkeypatch.setenv("STRATA_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.setenv("STRATA_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(UserError, match=r"the archive has sha256:[0-9a-f]{64}, versions.yaml pins"):
        steps["Kubespray"].run(Silent())
    assert not tacc.paths.ssh_key.exists()


def test_a_cluster_of_another_installer_is_not_taken_over(tacc: SiteContext) -> None:
    ClusterOutputs(api_endpoint="https://10.10.0.5:6443", kubernetes_version="1.35.4").save(tacc.paths)
    with pytest.raises(UserError, match=r"cluster.installer = kubespray: kubeadm installed the cluster"):
        up_steps(tacc, lifecycle_of(tacc), [Layer.CLUSTER])
    assert up_steps(tacc, lifecycle_of(tacc), [Layer.HOSTS])


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
