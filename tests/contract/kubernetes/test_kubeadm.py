"""What the roles write, judged by the real kubeadm."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from strata.toolchain import bin_directory

from .conftest import ROLES

Render = Callable[[str, Mapping[str, object]], str]
Kubeadm = Callable[..., "subprocess.CompletedProcess[str]"]

KINE = {"endpoints": ["https://10.77.0.5:2379"], "ca": "CA", "certificate": "CERT", "private_key": "KEY"}
CONTROL_PLANE: Mapping[str, object] = {
    "inventory_hostname": "control-1",
    "kubernetes_common_in_container": False,
    "kubernetes_common_systemd_cgroup": True,
    "kubernetes_common_garbage_collection": 300,
    "kubernetes_common_patches_directory": "/etc/kubernetes/patches",
    "kube_control_plane_address": "10.77.0.6",
    "kube_control_plane_api_address": "10.77.0.6",
    "kube_control_plane_alternative_names": ["api.example.org"],
    "kube_control_plane_cluster_name": "platform",
    "kube_control_plane_version": "1.35.4",
    "kube_control_plane_image_repository": "registry.lab.strata.test:5000/kubernetes/0123456789ab",
    "kube_control_plane_coredns_tag": "v1.14.0",
    "kube_control_plane_pod_network": "10.244.0.0/16",
    "kube_control_plane_service_network": "10.96.0.0/16",
    "kube_control_plane_datastore": KINE,
    "kube_control_plane_issuer": {"url": "https://login.lab.strata.test/realms/strata"},
    "_kube_control_plane_authentication_directory": "/etc/kubernetes/authentication",
    "_kube_control_plane_addons": True,
    "_kube_control_plane_several": False,
    "_kube_control_plane_patch_files": [],
}
HOST_ALIASES = [{"ip": "10.77.0.5", "hostnames": ["login.lab.strata.test"]}]
JOIN: Mapping[str, object] = {
    "inventory_hostname": "gpu-worker-1",
    "kubernetes_common_patches_directory": "/etc/kubernetes/patches",
    "kube_node_api_endpoint": "10.77.0.6:6443",
    "kube_node_address": "10.77.0.8",
    "kube_node_taints": ["nvidia.com/gpu=present:NoSchedule", "dedicated:NoExecute"],
    "_kube_node_token": "abcdef.0123456789abcdef",
    "__kube_node_authority": {"content": "Y2VydGlmaWNhdGU="},
}


def documents(text: str) -> dict[str, dict[str, Any]]:
    return {d["kind"]: d for d in yaml.safe_load_all(text) if d}


@pytest.mark.parametrize("container", [True, False], ids=["container", "machine"])
@pytest.mark.parametrize("datastore", [KINE, {}], ids=["kine", "etcd"])
def test_kubeadm_accepts_the_control_plane(
    render: Render,
    kubeadm: Kubeadm,
    configuration: Callable[[str], Path],
    container: bool,
    datastore: dict[str, object],
) -> None:
    variables = {
        **CONTROL_PLANE,
        "kubernetes_common_in_container": container,
        "kubernetes_common_systemd_cgroup": not container,
        "kube_control_plane_datastore": datastore,
    }
    text = render("kube_control_plane/templates/kubeadm.yaml.j2", variables)
    done = kubeadm("config", "validate", "--config", str(configuration(text)))
    assert done.returncode == 0, done.stderr
    by_kind = documents(text)
    assert set(by_kind) == {
        "InitConfiguration",
        "ClusterConfiguration",
        "KubeletConfiguration",
        "KubeProxyConfiguration",
    }
    # a real control plane has memory to mind
    cluster = by_kind["ClusterConfiguration"]
    for component in ("apiServer", "controllerManager", "scheduler"):
        environment = cluster.get(component, {}).get("extraEnvs", [])
        assert environment == ([{"name": "GOGC", "value": "300"}] if container else []), component
    assert cluster["encryptionAlgorithm"] == "ECDSA-P256"
    etcd = cluster.get("etcd")
    assert (etcd is None) == (not datastore)


@pytest.mark.parametrize(
    ("server", "component"),
    [("apiserver", "apiServer"), ("controller-manager", "controllerManager"), ("scheduler", "scheduler")],
)
def test_servers_know_the_arguments_that_they_are_given(render: Render, server: str, component: str) -> None:
    """kubeadm passes on whatever it is reported; a server would end at its start."""
    program = bin_directory() / f"kube-{server}"
    if not program.exists():
        pytest.skip(f"the pinned {program.name} is not in the cache: `strata up lab` has it built")
    text = render("kube_control_plane/templates/kubeadm.yaml.j2", CONTROL_PLANE)
    given = documents(text)["ClusterConfiguration"][component]["extraArgs"]
    known = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    assert given
    assert [a["name"] for a in given if f"--{a['name']} " not in known] == []


def test_kubeadm_accepts_a_join_with_taints(
    render: Render, kubeadm: Kubeadm, configuration: Callable[[str], Path], tmp_path: Path
) -> None:
    # named by a path that kubeadm looks up at once
    configuration(render("kube_node/templates/cluster.yaml.j2", JOIN)).rename(tmp_path / "cluster.yaml")
    text = render("kube_node/templates/join.yaml.j2", {**JOIN, "_kube_node_join_directory": str(tmp_path)})
    done = kubeadm("config", "validate", "--config", str(configuration(text)))
    assert done.returncode == 0, done.stderr
    registration = documents(text)["JoinConfiguration"]["nodeRegistration"]
    assert isinstance(registration, dict)
    assert registration["taints"] == [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"key": "dedicated", "value": "", "effect": "NoExecute"},
    ]


def patches(render: Render, directory: Path) -> list[dict[str, str]]:
    """Writes kubeadm's patches as the role does; returns its list of files."""
    role = yaml.safe_load((ROLES / "kube_control_plane" / "vars" / "main.yml").read_text())
    directory.mkdir()
    files: list[dict[str, str]] = role["_kube_control_plane_patch_files"]
    for file in files:
        path = directory / Path(file["path"]).name
        server = path.name.removesuffix("+strategic.yaml")
        template = "coredns" if server == "corednsdeployment" else "server"
        assert f"'{template}.yaml.j2'" in file["content"]
        aliases = HOST_ALIASES if "host_aliases" in file["content"] else []
        variables = {"server": server, "host_aliases": aliases}
        path.write_text(render(f"kube_control_plane/templates/{template}.yaml.j2", variables))
    return files


def dns_manifests(printed: str) -> dict[str, dict[str, Any]]:
    """By kind, from what kubeadm prints."""
    return documents("\n".join(line for line in printed.splitlines() if not line.startswith("[patches]")))


def test_kubeadm_takes_the_probes_from_the_patches(
    render: Render,
    kubeadm: Kubeadm,
    configuration: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a server may take to start is as with kubeadm's own probe; it is asked ten times as often."""
    monkeypatch.setenv("KUBEADM_INIT_DRYRUN_DIR", str(tmp_path / "dry"))
    (tmp_path / "none").mkdir()
    files = patches(render, tmp_path / "ours")

    def manifests(name: str) -> tuple[list[dict[str, int]], dict[str, int]]:
        variables = {
            **CONTROL_PLANE,
            "kube_control_plane_datastore": {},
            "_kube_control_plane_patch_files": files,
            "kubernetes_common_patches_directory": str(tmp_path / name),
        }
        file = str(configuration(render("kube_control_plane/templates/kubeadm.yaml.j2", variables)))
        servers = kubeadm("init", "phase", "control-plane", "all", "--dry-run", "--config", file)
        assert servers.returncode == 0, servers.stderr
        dns = kubeadm("init", "phase", "addon", "coredns", "--print-manifest", "--config", file)
        assert dns.returncode == 0, dns.stderr
        pods = [yaml.safe_load(manifest.read_text()) for manifest in sorted((tmp_path / "dry").glob("*.yaml"))]
        deployment = dns_manifests(dns.stdout)["Deployment"]
        startup = [pod["spec"]["containers"][0]["startupProbe"] for pod in pods]
        aliases = {pod["metadata"]["name"]: pod["spec"].get("hostAliases") for pod in pods}
        assert aliases.pop("kube-apiserver") == (HOST_ALIASES if name == "ours" else None)
        assert set(aliases.values()) == {None}
        return startup, deployment["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]

    theirs, their_dns = manifests("none")
    ours, our_dns = manifests("ours")
    assert len(theirs) == len(ours) == 3
    for their, our in zip(theirs, ours, strict=True):
        assert their["failureThreshold"] * their["periodSeconds"] == our["failureThreshold"] * our["periodSeconds"]
        assert (our["periodSeconds"], our.get("initialDelaySeconds", 0)) == (1, 0)
        assert our["timeoutSeconds"] == their["timeoutSeconds"]
    assert our_dns["periodSeconds"] == 2
    # as theirs: the default of 10 s, thrice
    assert our_dns["failureThreshold"] * our_dns["periodSeconds"] == 30
    assert "httpGet" in our_dns
    assert "httpGet" in their_dns


NAMES = [{"address": "10.77.0.5", "name": name} for name in ("login.lab.strata.test", "registry.lab.strata.test")]
HOSTS = """    hosts {
       10.77.0.5 login.lab.strata.test
       10.77.0.5 registry.lab.strata.test
       fallthrough
    }
"""


def test_the_configuration_of_coredns_is_kubeadms_and_the_sites_names(
    render: Render, kubeadm: Kubeadm, configuration: Callable[[str], Path], tmp_path: Path
) -> None:
    """kubeadm keeps any other one, so what its releases change must be brought here."""
    variables = {**CONTROL_PLANE, "kubernetes_common_patches_directory": str(tmp_path)}
    file = str(configuration(render("kube_control_plane/templates/kubeadm.yaml.j2", variables)))
    printed = kubeadm("init", "phase", "addon", "coredns", "--print-manifest", "--config", file)
    assert printed.returncode == 0, printed.stderr
    theirs = dns_manifests(printed.stdout)["ConfigMap"]

    def ours(names: list[dict[str, str]]) -> dict[str, Any]:
        template = "kube_control_plane/templates/coredns-configuration.yaml.j2"
        configuration: dict[str, Any] = yaml.safe_load(render(template, {"kube_control_plane_names": names}))
        return configuration

    assert ours([]) == theirs
    corefile = ours(NAMES)["data"]["Corefile"]
    assert HOSTS in corefile
    assert corefile.replace(HOSTS, "") == theirs["data"]["Corefile"]


def test_other_patches_are_another_configuration(render: Render) -> None:
    """So that a changed patch is brought to a cluster that is there."""
    texts = {
        render(
            "kube_control_plane/templates/kubeadm.yaml.j2",
            {**CONTROL_PLANE, "_kube_control_plane_patch_files": [{"content": content}]},
        )
        for content in ("one", "two")
    }
    assert len(texts) == 2


def test_several_control_planes_elect_a_leader_and_are_one_endpoint(
    render: Render, kubeadm: Kubeadm, configuration: Callable[[str], Path], tmp_path: Path
) -> None:
    """Their configuration of the cluster is the same, and the certificate of each is good for the endpoint."""
    common = {**CONTROL_PLANE, "kube_control_plane_api_address": "10.77.0.4", "_kube_control_plane_several": True}
    configurations = []
    for name, address in (("control-1", "10.77.0.6"), ("control-2", "10.77.0.7")):
        variables = {**common, "inventory_hostname": name, "kube_control_plane_address": address}
        text = render("kube_control_plane/templates/kubeadm.yaml.j2", variables)
        file = configuration(text)
        assert kubeadm("config", "validate", "--config", str(file)).returncode == 0
        configurations.append(documents(text))
        certificates = tmp_path / name
        file.write_text(text.replace("clusterName:", f"certificatesDir: {certificates}\nclusterName:"))
        for certificate in ("ca", "apiserver"):
            done = kubeadm("init", "phase", "certs", certificate, "--config", str(file))
            assert done.returncode == 0, done.stderr
        issued = x509.load_pem_x509_certificate((certificates / "apiserver.crt").read_bytes())
        names = issued.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert {"10.77.0.4", address} <= {str(ip) for ip in names.get_values_for_type(x509.IPAddress)}
        assert {name, "kubernetes", "api.example.org"} <= set(names.get_values_for_type(x509.DNSName))
    first, second = configurations
    assert first["ClusterConfiguration"] == second["ClusterConfiguration"]
    assert first["ClusterConfiguration"]["controlPlaneEndpoint"] == "10.77.0.4:6443"
    for component in ("controllerManager", "scheduler"):
        arguments = {a["name"]: a["value"] for a in first["ClusterConfiguration"][component]["extraArgs"]}
        assert arguments["leader-elect"] == "true"


def test_kubeadm_would_refuse_a_key_that_it_does_not_know(
    render: Render, kubeadm: Kubeadm, configuration: Callable[[str], Path]
) -> None:
    text = render("kube_control_plane/templates/kubeadm.yaml.j2", CONTROL_PLANE)
    broken = text.replace("podSubnet:", "podSubnets:")
    assert broken != text
    done = kubeadm("config", "validate", "--config", str(configuration(broken)))
    assert done.returncode != 0
    assert "podSubnets" in done.stderr


@pytest.mark.parametrize(
    ("container", "systemd", "driver"),
    [(True, False, "cgroupfs"), (True, True, "systemd"), (False, True, "systemd")],
    ids=["container-cgroup-v1", "container-cgroup-v2", "machine"],
)
def test_only_containers_get_their_exceptions(render: Render, container: bool, systemd: bool, driver: str) -> None:
    variables = {"kubernetes_common_in_container": container, "kubernetes_common_systemd_cgroup": systemd}
    patch = yaml.safe_load(render("kubernetes_common/templates/kubelet-patch.yaml.j2", variables))
    assert patch["cgroupDriver"] == driver
    assert (patch.get("failCgroupV1") is False) == (not systemd)
    assert ("featureGates" in patch) == container
    runtime = render(
        "kubernetes_common/templates/config.toml.j2",
        {
            **variables,
            "kubernetes_common_nvidia_runtime": False,
            "kubernetes_common_pause_image": "registry.lab.strata.test:5000/kubernetes/pause:3.10.1",
            "kubernetes_common_cni_directory": "/usr/lib/cni",
        },
    )
    assert ("restrict_oom_score_adj = true" in runtime) == container
    assert f"SystemdCgroup = {str(systemd).lower()}" in runtime


def test_the_kubelet_patch_holds_only_keys_that_kubeadm_knows(
    render: Render, kubeadm: Kubeadm, configuration: Callable[[str], Path]
) -> None:
    variables = {**CONTROL_PLANE, "kubernetes_common_in_container": True, "kubernetes_common_systemd_cgroup": False}
    text = render("kube_control_plane/templates/kubeadm.yaml.j2", variables)
    patch = render("kubernetes_common/templates/kubelet-patch.yaml.j2", variables)
    others = [d for d in yaml.safe_load_all(text) if d["kind"] != "KubeletConfiguration"]
    together = yaml.safe_dump_all([*others, yaml.safe_load(patch)])
    done = kubeadm("config", "validate", "--config", str(configuration(together)))
    assert done.returncode == 0, done.stderr
    assert "unknown field" not in done.stderr
