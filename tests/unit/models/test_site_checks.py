"""Each mistake is told with its line, its key and a fix; and nothing else is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from strata.models import Problem, SiteError, load_site
from strata.site.paths import REPOSITORY

from .conftest import LAB

Edit = tuple[str, str]

SMALL = "{name: cpu.small, vcpus: 2, memory: 2 GiB, disk: 20 GiB}"
WORKER = "{name: worker-1, flavor: cpu.medium, image: debian-12, network: platform, roles: [kube_node]}"
GPU = "{name: gpu-worker-1, flavor: gpu.v100.1, image: debian-12, network: platform, roles: [kube_node, gpu_node]}"
CONTROL_PLANES = "\n    - ".join(
    WORKER.replace("worker-1", name).replace("kube_node", "kube_control_plane") for name in ("control-2", "control-3")
)
SECOND = f"\n    - {GPU.replace('gpu-worker-1', 'gpu-worker-2').replace('v100.1', 'v100.2')}"
NETWORK = "{name: platform, cidr: 10.77.0.0/24}"
POOL = "{name: platform, cidr: 10.77.0.0/24, allocation_pool: {start: 10.77.0.20, end: 10.77.0.22}}"
DOUBLE = "\n    - {name: other, cidr: 10.77.0.128/25}"
MACHINE = "hosts:\n  machines: [{name: m1, address: 10.244.3.4, roles: [kube_node]}]"

NO_NOTEBOOKS = (LAB[LAB.index("    jupyterhub:\n") :], "")
NO_BUCKETS = ("    object_storage: {}\n", "")
"""Takes the last service, whose needs would be told too."""

# name of the case: (edits of the lab's site, key, part of the reason, part of the fix, text in the line that is named)
CASES: dict[str, tuple[Sequence[Edit], str, str, str, str]] = {
    "misspelt key": (
        [("vcpus: 2,", "vcpu: 2,")],
        "cloud.flavors[0].vcpu",
        "known key",
        "did you mean vcpus?",
        "vcpu: 2",
    ),
    "unknown key": ([("domain:", "watermark: red\ndomain:")], "watermark", "known key", "keys here", "watermark: red"),
    "missing key": (
        [("{name: debian-12, distribution: debian, ", "{name: debian-12, ")],
        "cloud.images[0].distribution",
        "is missing",
        "add distribution",
        'release: "12"',
    ),
    "number for text": (
        [('release: "12"', "release: 12")],
        "cloud.images[0].release",
        "must be text",
        "quotes",
        "release: 12",
    ),
    "text for number": (
        [("vcpus: 2,", 'vcpus: "2",')],
        "cloud.flavors[0].vcpus",
        "whole number",
        "without quotes",
        'vcpus: "2"',
    ),
    "zero": (
        [("replicas: 1", "replicas: 0")],
        "platform.services.ml_hub.replicas",
        "at least 1",
        "at least 1",
        "replicas: 0",
    ),
    "true for number": (
        [("replicas: 1", "replicas: true")],
        "platform.services.ml_hub.replicas",
        "whole number",
        "2",
        "replicas: true",
    ),
    "empty section": (
        [("hosts:\n  nfs", "cluster_x:\nhosts:\n  nfs")],
        "cluster_x",
        "known key",
        "did you mean cluster?",
        "cluster_x",
    ),
    "decimal unit": (
        [("memory: 2 GiB", "memory: 2 GB")],
        "cloud.flavors[0].memory",
        "not a size",
        "did you mean 2 GiB?",
        "2 GB",
    ),
    "half a MiB": (
        [("memory: 2 GiB", "memory: 512 KiB")],
        "cloud.flavors[0].memory",
        "whole number of MiB",
        "MiB",
        "512 KiB",
    ),
    "upper-case host": (
        [("name: worker-1", "name: Worker-1")],
        "cloud.instances[2].name",
        "RFC 1123",
        "did you mean worker-1?",
        "Worker-1",
    ),
    "long host": (
        [("name: worker-1", f"name: {'w' * 64}")],
        "cloud.instances[2].name",
        "at most 63",
        "gpu-worker-1",
        "wwww",
    ),
    "domain without dot": (
        [("domain: lab.strata.test", "domain: lab")],
        "domain",
        "at least one dot",
        "ml.example.org",
        "domain: lab",
    ),
    "unknown role": (
        [("postgresql, kine", "postgres, kine")],
        "cloud.instances[0].roles[1]",
        "choices",
        "did you mean postgresql?",
        "postgres,",
    ),
    "unknown installer": (
        [("installer: kubeadm", "installer: kubeadmin")],
        "cluster.installer",
        "choices",
        "did you mean kubeadm?",
        "kubeadmin",
    ),
    "unknown accelerator": (
        [("disk: 200 GiB, accelerators: {v100: 2}", "disk: 200 GiB, accelerators: {v10: 2}")],
        "cloud.hypervisors[1].accelerators.v10",
        "knows",
        "did you mean v100?",
        "v10: 2",
    ),
    "network without prefix": (
        [("cidr: 10.77.0.0/24", "cidr: 10.77.0.0")],
        "cloud.networks[0].cidr",
        "prefix length",
        "10.77.0.0/24",
        "cidr: 10.77.0.0}",
    ),
    "host bits": (
        [("cidr: 10.77.0.0/24", "cidr: 10.77.0.5/24")],
        "cloud.networks[0].cidr",
        "inside a network",
        "10.77.0.0/24",
        "10.77.0.5",
    ),
    "gateway outside": (
        [(NETWORK, "{name: platform, cidr: 10.77.0.0/24, gateway: 10.78.0.1}")],
        "cloud.networks[0].gateway",
        "not in 10.77.0.0/24",
        "address of",
        "10.78.0.1",
    ),
    "gateway in pool": (
        [(NETWORK, "{name: platform, cidr: 10.77.0.0/24, allocation_pool: {start: 10.77.0.1, end: 10.77.0.50}}")],
        "cloud.networks[0].allocation_pool",
        "gateway",
        "out of the pool",
        "10.77.0.50",
    ),
    "pool reversed": (
        [(NETWORK, "{name: platform, cidr: 10.77.0.0/24, allocation_pool: {start: 10.77.0.50, end: 10.77.0.40}}")],
        "cloud.networks[0].allocation_pool",
        "before it starts",
        "exchange",
        "10.77.0.40",
    ),
    "networks overlap": (
        [("control_network: 10.87.0.0/24", "control_network: 10.77.0.0/25")],
        "cloud.control_network",
        "overlaps with cloud.networks[0].cidr",
        "another",
        "10.77.0.0/25",
    ),
    "project networks overlap": (
        [(NETWORK, NETWORK + DOUBLE)],
        "cloud.networks[1].cidr",
        "overlaps with cloud.networks[0].cidr",
        "another",
        "10.77.0.128/25",
    ),
    "pods overlap": (
        [("pod_network: 10.244.0.0/16", "pod_network: 10.77.0.0/16")],
        "cloud.networks[0].cidr",
        "overlaps with cluster.pod_network",
        "another",
        "10.77.0.0/24",
    ),
    "services overlap": (
        [("service_network: 10.96.0.0/16", "service_network: 10.244.128.0/20")],
        "cluster.service_network",
        "overlaps with cluster.pod_network",
        "another",
        "10.244.128.0/20",
    ),
    "machine inside the pods": (
        [("hosts:", MACHINE)],
        "hosts.machines[0].address",
        "inside the cluster only",
        "another address",
        "10.244.3.4",
    ),
    "pod network too small": (
        [("pod_network: 10.244.0.0/16", "pod_network: 10.244.0.0/23")],
        "cluster.pod_network",
        "room for 2 nodes",
        "/22",
        "10.244.0.0/23",
    ),
    "service network too large": (
        [("service_network: 10.96.0.0/16", "service_network: 172.0.0.0/8")],
        "cluster.service_network",
        "larger than Kubernetes",
        "/12",
        "172.0.0.0/8",
    ),
    "control network too small": (
        [("control_network: 10.87.0.0/24", "control_network: 10.87.0.0/29")],
        "cloud.control_network",
        "too few",
        "/28",
        "10.87.0.0/29",
    ),
    "network too small": (
        [(NETWORK, "{name: platform, cidr: 10.77.0.0/30}")],
        "cloud.networks[0].cidr",
        "too few addresses",
        "/29",
        "/30",
    ),
    "pool too small": (
        [(NETWORK, POOL)],
        "cloud.networks[0].allocation_pool",
        "2 addresses for instances, 4 instances",
        "larger pool",
        "10.77.0.22",
    ),
    "unknown flavor": (
        [("worker-1, flavor: cpu.medium", "worker-1, flavor: cpu.mediu")],
        "cloud.instances[2].flavor",
        "not in cloud.flavors",
        "did you mean cpu.medium?",
        "cpu.mediu,",
    ),
    "unknown image": (
        [(WORKER, WORKER.replace("debian-12", "debian-13"))],
        "cloud.instances[2].image",
        "not in cloud.images",
        "did you mean debian-12?",
        "debian-13",
    ),
    "unknown server group": (
        [(WORKER, WORKER.replace("}", ", server_group: workers}"))],
        "cloud.instances[2].server_group",
        "not in cloud.server_groups",
        "declare it",
        "server_group: workers",
    ),
    "availability zone in a lab": (
        [(WORKER, WORKER.replace("}", ", availability_zone: az1}"))],
        "cloud.instances",
        "has one zone",
        "remove availability_zone",
        "instances:",
    ),
    "unknown network": (
        [(WORKER, WORKER.replace("platform", "platfrom"))],
        "cloud.instances[2].network",
        "not in cloud.networks",
        "did you mean platform?",
        "platfrom",
    ),
    "host twice": (
        [("name: worker-1", "name: control-1")],
        "cloud.instances[2].name",
        "duplicate",
        "another",
        "roles: [kube_node]",
    ),
    "flavor twice": (
        [(SMALL, f"{SMALL}\n    - {SMALL}")],
        "cloud.flavors[1].name",
        "duplicate",
        "another",
        "cpu.small",
    ),
    "role twice": (
        [("[kube_node, gpu_node]", "[kube_node, gpu_node, kube_node]")],
        "cloud.instances[3].roles[2]",
        "duplicate",
        "another",
        "gpu_node, kube_node",
    ),
    "database twice": (
        [("hosts:\n", "hosts:\n  postgresql: {databases: [mlflow, mlflow]}\n")],
        "hosts.postgresql.databases[1]",
        "duplicate",
        "another",
        "mlflow, mlflow",
    ),
    "hostname of two services": (
        [("{hostname: login}", "{hostname: ml-hub}")],
        "platform.services.ml_hub.hostname",
        "duplicate",
        "another",
        "ml_hub: {hostname",
    ),
    "hostname of the registry": (
        [("{hostname: login}", "{hostname: registry}")],
        "platform.services.keycloak.hostname",
        "duplicate",
        "another",
        "registry}",
    ),
    "reserved namespace": (
        [("{name: research, quota", "{name: kube-system, quota"), ("tenants: [research]", "tenants: [kube-system]")],
        "platform.tenants[0].name",
        "of Kubernetes or the platform",
        "another",
        "kube-system",
    ),
    "reserved host": (
        [("name: worker-1", "name: controller")],
        "cloud.instances[2].name",
        "OpenStack controller",
        "another",
        "controller",
    ),
    "kind that no hypervisor holds": (
        [
            (
                "{name: gpu.v100.2,",
                "{name: gpu.t4, vcpus: 1, memory: 1 GiB, disk: 1 GiB, accelerators: {t4: 1}}\n    - {name: gpu.v100.2,",
            )
        ],
        "cloud.flavors[2].accelerators.t4",
        "no hypervisor holds",
        "v100",
        "t4: 1",
    ),
    "more cards than a hypervisor": (
        [("disk: 20 GiB, accelerators: {v100: 2}", "disk: 20 GiB, accelerators: {v100: 3}")],
        "cloud.flavors[2].accelerators.v100",
        "holds 2 at most",
        "at most 2",
        "v100: 3",
    ),
    "more cards than the site": (
        [(GPU, GPU + SECOND)],
        "cloud.instances[4].flavor",
        "instances ask for 3 × v100, hypervisors hold 2",
        "fewer",
        "gpu-worker-2",
    ),
    "GPU node without cards": (
        [
            ("flavor: gpu.v100.1, image", "flavor: cpu.small, image"),
            ("{cpu: 8, memory: 16 GiB, accelerators: {v100: 1}}", "{cpu: 8, memory: 16 GiB}"),
            NO_NOTEBOOKS,
        ],
        "cloud.instances[3].flavor",
        "no accelerators",
        "gpu.v100.1",
        "gpu-worker-1",
    ),
    "tenant may more than there is": (
        [("memory: 16 GiB, accelerators: {v100: 1}", "memory: 16 GiB, accelerators: {v100: 2}")],
        "platform.tenants[0].quota.accelerators.v100",
        "allows 2",
        "at most 1",
        "v100: 2",
    ),
    "quota of instances": (
        [("instances: 10", "instances: 3")],
        "cloud.project.quota.instances",
        "4 instances",
        "4 or more",
        "instances: 3",
    ),
    "quota of cores": ([("cores: 40", "cores: 9")], "cloud.project.quota.cores", "need: 10", "10 or more", "cores: 9"),
    "quota of memory": (
        [("cores: 40, memory: 64 GiB", "cores: 40, memory: 9 GiB")],
        "cloud.project.quota.memory",
        "need: 12 GiB",
        "12 GiB or more",
        "9 GiB",
    ),
    "flavor larger than all hypervisors": (
        [("vcpus: 8, memory: 8 GiB", "vcpus: 33, memory: 8 GiB")],
        "cloud.flavors[2].vcpus",
        "more than any hypervisor",
        "at most 32",
        "vcpus: 33",
    ),
    "kine without its host": (
        [("postgresql, kine, registry", "postgresql, registry")],
        "cluster.datastore",
        "role kine",
        "etcd",
        "datastore: kine",
    ),
    "kine beside etcd": (
        [("datastore: kine", "datastore: etcd")],
        "cluster.datastore",
        "services-1 has the role kine",
        "datastore: kine",
        "datastore: etcd",
    ),
    "no control plane": (
        [("roles: [kube_control_plane]", "roles: [kube_node]")],
        "cloud.instances[1].roles",
        "kube_control_plane",
        "give a host",
        "control-1",
    ),
    "two control planes by kubeadm": (
        [(WORKER, WORKER.replace("[kube_node]", "[kube_control_plane]"))],
        "cloud.instances[2].roles",
        "the role kube_control_plane is on 2 hosts: control-1, worker-1",
        "1, 3 or 5 control planes",
        "worker-1",
    ),
    "the load balancer of three control planes on one of them": (
        [
            (WORKER, CONTROL_PLANES.replace("[kube_control_plane]", "[kube_control_plane, load_balancer]", 1)),
            ("registry, load_balancer]", "registry]"),
        ],
        "cloud.instances[2].roles",
        "both load_balancer and kube_control_plane listen at port 6443",
        "give another host the role load_balancer",
        "control-2",
    ),
    "three control planes with an etcd on each": (
        [
            (WORKER, CONTROL_PLANES),
            ("postgresql, kine, registry", "postgresql, registry"),
            ("datastore: kine", "datastore: etcd"),
        ],
        "cluster.datastore",
        "several control planes by kubeadm need a datastore outside of them",
        "datastore: kine, or installer: kubespray",
        "datastore: etcd",
    ),
    "GPU node that is no node": (
        [
            ("[kube_node, gpu_node]", "[gpu_node]"),
            ("accelerators: {v100: 1}}, group_id", "accelerators: {}}, group_id"),
        ],
        "cloud.instances[3].roles",
        "role kube_node on the same host",
        "add kube_node",
        "gpu-worker-1",
    ),
    "a driver without the GPU": (
        [("  gpu_nodes:\n", "  gpu_nodes:\n    driver_branch: 595\n")],
        "cluster.gpu_nodes.driver_branch",
        "driver 595 has no support for v100 (gpu-worker-1: NVIDIA Tesla V100 PCIe 16 GB, compute capability 7.0)",
        "driver_branch: 580",
        "595",
    ),
    "CUDA without the GPU": (
        [("  gpu_nodes:\n", "  gpu_nodes:\n    cuda: 13\n")],
        "cluster.gpu_nodes.cuda",
        "CUDA 13 has no support for v100",
        "cuda: 12",
        "13",
    ),
    "a hypervisor without cards": (
        [("hosts:\n", "hosts:\n  machines: [{name: gpu01, address: 192.0.2.9, roles: [pci_passthrough]}]\n")],
        "hosts.machines[0].roles",
        "has the role pci_passthrough and no accelerators",
        "accelerators: {v100: 2}",
        "gpu01",
    ),
    "an instance as hypervisor": (
        [("roles: [kube_node]", "roles: [kube_node, pci_passthrough]")],
        "cloud.instances[2].roles",
        "which is a hypervisor's",
        "hosts.machines",
        "pci_passthrough",
    ),
    "two load balancers": (
        [("roles: [kube_node]", "roles: [kube_node, load_balancer]")],
        "cloud.instances[2].roles",
        "already on services-1",
        "remove",
        "load_balancer",
    ),
    "exports without a server": (
        [("[nfs_server, postgresql", "[postgresql"), NO_NOTEBOOKS, NO_BUCKETS],
        "hosts.nfs",
        "role nfs_server",
        "give a host",
        "nfs: {exports",
    ),
    "server without exports": (
        [
            ("hosts:\n" + next(f"{line}\n" for line in LAB.splitlines() if line.startswith("  nfs: ")), ""),
            ("      shared_export: tenants\n", ""),
            NO_BUCKETS,
        ],
        "cloud.instances[0].roles",
        "hosts.nfs does not say",
        "exports",
        "roles: [nfs_server",
    ),
    "pods as NFS clients": (
        [("path: /srv/nfs/data}", "path: /srv/nfs/data, clients: [10.244.3.0/24]}")],
        "hosts.nfs.exports[0].clients[0]",
        "overlaps with cluster.pod_network",
        "remove it",
        "clients: [10.244.3.0/24]",
    ),
    "folder of a tenant without a group": (
        [(", group_id: 20001", "")],
        "platform.tenants[0]",
        "has no group_id",
        "group_id: 20001",
        "name: research",
    ),
    "two tenants with one group": (
        [
            (
                "group_id: 20001}\n",
                "group_id: 20001}\n    - {name: other, quota: {cpu: 1, memory: 1 GiB}, group_id: 20001}\n",
            )
        ],
        "platform.tenants[1].group_id",
        "already the group of research",
        "another number",
        "name: other",
    ),
    "network named twice": (
        [("  ssh: [10.77.0.1/32]", "  ssh: [10.77.0.1/32, 10.77.0.1/32]")],
        "access.ssh[1]",
        "duplicate",
        "remove this entry",
        "ssh: [",
    ),
    "relative path": (
        [("path: /srv/nfs/data", "path: srv/../data")],
        "hosts.nfs.exports[0].path",
        "absolute path",
        "/srv/nfs/data",
        "srv/../data",
    ),
    "certificate of an unknown source": (
        [("platform:\n", "platform:\n  ingress: {certificate: {source: letsencrypt}}\n")],
        "platform.ingress.certificate.source",
        "",
        "acme",
        "letsencrypt",
    ),
    "certificate without its key": (
        [("platform:\n", "platform:\n  ingress: {certificate: {source: files, certificate: c.pem}}\n")],
        "platform.ingress.certificate.private_key",
        "is needed for source: files",
        "private_key: ingress_private_key",
        "source: files",
    ),
    "ACME without an address": (
        [("platform:\n", "platform:\n  ingress: {certificate: {source: acme}}\n")],
        "platform.ingress.certificate.email",
        "is needed for source: acme",
        "email: ",
        "source: acme",
    ),
    "certificate file of the site's own CA": (
        [("platform:\n", "platform:\n  ingress: {certificate: {certificate: c.pem}}\n")],
        "platform.ingress.certificate.certificate",
        "is only for source: files",
        "source: files",
        "c.pem",
    ),
    "certificate that is not there": (
        [("platform:\n", "platform:\n  ingress: {certificate: {source: acme, email: a@b.org, ca_file: no.pem}}\n")],
        "platform.ingress.certificate.ca_file",
        "there is no file",
        "a PEM file",
        "no.pem",
    ),
    "ML hub without database": (
        [
            ("postgresql, kine, registry", "registry"),
            ("datastore: kine", "datastore: etcd"),
            ("keycloak: {hostname: login}", "external_issuer: {url: 'https://login.example.org'}"),
            ("    accounting: {measurements: {}}\n", ""),
            NO_NOTEBOOKS,
        ],
        "platform.services.ml_hub",
        "database ml_hub",
        "role postgresql",
        "ml_hub: {hostname",
    ),
    "ML hub without issuer": (
        [("    keycloak: {hostname: login}\n", ""), ("{measurements: {}}", "{}"), NO_NOTEBOOKS],
        "platform.services.ml_hub",
        "keycloak",
        "keycloak: {}",
        "ml_hub:",
    ),
    "catalogue that is not there": (
        [("catalogue.json", "models.json")],
        "platform.services.ml_hub.catalogue.file",
        "there is no file",
        "JSON file",
        "models.json",
    ),
    "two catalogues": (
        [("{file: catalogue.json}", "{file: catalogue.json, hugging_face: 10}")],
        "platform.services.ml_hub.catalogue",
        "exactly one",
        "file",
        "hugging_face: 10",
    ),
    "lab without control network": (
        [("  control_network: 10.87.0.0/24\n", "")],
        "cloud.control_network",
        "needed for a lab",
        "control_network: 10.87.0.0/24",
        "cloud:",
    ),
    "Debian release that no role supports": (
        [('distribution: debian, release: "12"', 'distribution: debian, release: "11"')],
        "cloud.images[0].release",
        "roles support",
        "12 or 13",
        'release: "11"',
    ),
    "distribution that no role supports": (
        [("distribution: debian", "distribution: ubuntu")],
        "cloud.images[0].distribution",
        "choices",
        "debian",
        "distribution: ubuntu",
    ),
    "role that is not there": (
        [("[kube_node]", "[slurm_login]")],
        "cloud.instances[2].roles[0]",
        "choices",
        "kube_node",
        "[slurm_login]",
    ),
    "file secret without path": (
        [("platform:\n  tenants", "secrets: [{name: token, source: file}]\nplatform:\n  tenants")],
        "secrets[0].path",
        "needed for source: file",
        "path:",
        "source: file",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_mistake(site_file: Callable[..., Path], problems_of: Callable[[Path], Sequence[Problem]], case: str) -> None:
    edits, key, why, fix, in_line = CASES[case]
    file = site_file(*edits)
    found = problems_of(file)
    assert [p.key for p in found] == [key], [str(p) for p in found]
    problem = found[0]
    assert why in problem.why
    assert fix in problem.fix
    assert problem.line is not None
    assert in_line in file.read_text().splitlines()[problem.line - 1]


def test_several_control_planes_need_a_load_balancer(
    site_file: Callable[..., Path], problems_of: Callable[[Path], Sequence[Problem]]
) -> None:
    campus = (REPOSITORY / "inventories" / "campus" / "site.yaml").read_text()
    (problem,) = problems_of(site_file(("[registry, load_balancer]", "[registry]"), text=campus))
    assert problem.key == "cloud.instances[3].roles"
    assert "several control planes need a host with the role load_balancer" in problem.why
    assert problem.fix == "give a host the role load_balancer"


def test_the_lab_has_no_mistake(site_file: Callable[..., Path]) -> None:
    assert load_site(site_file()).name == "lab"


def test_all_mistakes_at_once(site_file: Callable[..., Path], problems_of: Callable[[Path], Sequence[Problem]]) -> None:
    file = site_file(
        ("vcpus: 2,", "vcpu: 2,"),
        ("10.87.0.0/24", "10.77.0.0/24"),
        ("installer: kubeadm", "installer: kubeadmin"),
        ("catalogue.json", "models.json"),
        ("roles: [kube_node]}", "roles: [kube_node], rolls: 1}"),
        ("domain: lab.strata.test", "domain: lab.strata.test\ndomain: lab.strata.test"),
    )
    found = problems_of(file)
    assert [p.key for p in found] == [
        "domain",
        "cloud.networks[0].cidr",
        "cloud.flavors[0].vcpu",
        "cloud.instances[2].rolls",
        "cluster.installer",
        "platform.services.ml_hub.catalogue.file",
    ]
    assert [p.line for p in found] == sorted(p.line or 0 for p in found)


def test_a_wrong_entry_does_not_make_others_wrong(
    site_file: Callable[..., Path], problems_of: Callable[[Path], Sequence[Problem]]
) -> None:
    """The instances of a flavor with a mistake are not said to use an unknown flavor."""
    found = problems_of(site_file(("cpu.small, vcpus: 2", "cpu.small, vcpus: two")))
    assert [p.key for p in found] == ["cloud.flavors[0].vcpus"]


def test_places_do_not_shift_behind_a_wrong_entry(
    site_file: Callable[..., Path], problems_of: Callable[[Path], Sequence[Problem]]
) -> None:
    edits = [("control-1, flavor", "Control-1, flavor"), ("worker-1, flavor: cpu.medium", "worker-1, flavor: cpu.tiny")]
    found = problems_of(site_file(*edits))
    assert [p.key for p in found] == ["cloud.instances[1].name", "cloud.instances[2].flavor"]


def test_many_mistakes_are_counted(site_file: Callable[..., Path]) -> None:
    text = "name: lab\ndomain: a.b\n" + "".join(f"key{i}: 1\n" for i in range(500))
    with pytest.raises(SiteError) as caught:
        load_site(site_file(text=text))
    assert len(caught.value.problems) == 500
    assert "… and 450 more" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "cloud: {flavors: [" + "{a: [1]},\n" * 20_000 + "]}",
        "cloud: {instances: [" + "{name: a, flavor: b, image: c, network: d, rolse: [kube_node]},\n" * 5_000 + "]}",
        "".join(f"key{i}: {{}}\n" for i in range(20_000)),
    ],
    ids=["wrong entries", "misspelt keys", "unknown keys"],
)
def test_thousands_of_mistakes_take_seconds_at_most(site_file: Callable[..., Path], text: str) -> None:
    begin = time.process_time()
    with pytest.raises(SiteError, match="or more mistakes"):
        load_site(site_file(text="name: lab\ndomain: a.b\n" + text))
    assert time.process_time() - begin < 5


def test_key_of_a_certificate_is_a_provided_secret(
    site_file: Callable[..., Path], problems_of: Callable[[Path], Sequence[Problem]]
) -> None:
    certificate = "{source: files, certificate: c.pem, private_key: ingress_key}"
    file = site_file(("platform:\n", f"platform:\n  ingress: {{certificate: {certificate}}}\n"))
    (file.parent / "c.pem").write_text("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
    (found,) = problems_of(file)
    assert found.key == "platform.ingress.certificate.private_key"
    assert "ingress_key is not a secret that the operator provides" in str(found)
