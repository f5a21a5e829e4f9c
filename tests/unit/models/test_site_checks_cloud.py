"""Errors in networks, names, quotas and sizes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .conftest import LAB, Mistake

SMALL = "{name: cpu.small, vcpus: 2, memory: 2 GiB, disk: 20 GiB}"
WORKER = "{name: worker-1, flavor: cpu.medium, image: debian-12, network: platform, roles: [kube_node]}"
GPU = "{name: gpu-worker-1, flavor: gpu.v100.1, image: debian-12, network: platform, roles: [kube_node, gpu_node]}"
SECOND = f"\n    - {GPU.replace('gpu-worker-1', 'gpu-worker-2').replace('v100.1', 'v100.2')}"
NETWORK = "{name: platform, cidr: 10.77.0.0/24}"
POOL = "{name: platform, cidr: 10.77.0.0/24, allocation_pool: {start: 10.77.0.20, end: 10.77.0.22}}"
DOUBLE = "\n    - {name: other, cidr: 10.77.0.128/25}"
MACHINE = "hosts:\n  machines: [{name: m1, address: 10.244.3.4, roles: [kube_node]}]"
NO_NOTEBOOKS = (LAB[LAB.index("    jupyterhub:\n") :], "")
"""Takes a service away, whose needs would be reported too."""

CARDS = "disk: 20 GiB, accelerators: {v100: 2}}"
CASES: dict[str, Mistake] = {
    "PCI alias of a flavor that Strata creates": (
        [(CARDS, f"{CARDS[:-1]}, aliases: {{v100: tesla}}}}")],
        "cloud.flavors[2].aliases",
        "for an existing flavor",
        "remove aliases",
        "{v100: tesla}",
    ),
    "PCI alias of a kind that the flavor has no cards of": (
        [(CARDS, f"{CARDS[:-1]}, existing: true, aliases: {{a100: tesla}}}}")],
        "cloud.flavors[2].aliases",
        "names a100, and accelerators does not",
        "the same kinds in both",
        "{a100: tesla}",
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
    "IPv6 alone": (
        [("cidr: 10.77.0.0/24", "cidr: 2001:db8::/64")],
        "cloud.networks[0].cidr",
        "hosts of a site need IPv4",
        "ipv6: {cidr: 2001:db8::/64} beside it",
        "2001:db8::/64",
    ),
    "IPv6 in a lab": (
        [("cidr: 10.77.0.0/24", "cidr: 10.77.0.0/24, ipv6: {cidr: 2001:db8::/64}")],
        "cloud.networks",
        "gives IPv4 addresses only",
        "remove ipv6",
        "networks:",
    ),
    "prefix too long for SLAAC": (
        [("cidr: 10.77.0.0/24", "cidr: 10.77.0.0/24, ipv6: {cidr: 2001:db8::/80}")],
        "cloud.networks[0].ipv6.cidr",
        "slaac needs 64",
        "dhcpv6-stateful",
        "2001:db8::/80",
    ),
    "IPv6 gateway outside": (
        [("cidr: 10.77.0.0/24", 'cidr: 10.77.0.0/24, ipv6: {cidr: 2001:db8::/64, gateway: "2001:db8:1::1"}')],
        "cloud.networks[0].ipv6.gateway",
        "not in 2001:db8::/64",
        "an address of",
        "2001:db8:1::1",
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
        [("control_network: 10.87.0.0/24", "control_network: 10.77.0.0/25"), ("//10.87.0.9", "//10.77.0.9")],
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
        [("control_network: 10.87.0.0/24", "control_network: 10.87.0.0/29"), ("//10.87.0.9", "//10.87.0.1")],
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
        [
            ("{name: research, quota", "{name: kube-system, quota"),
            ("cpu: 1, tenants: [research]", "cpu: 1, tenants: [kube-system]"),
            ("accelerators: {v100: 1}, tenants: [research]", "accelerators: {v100: 1}, tenants: [kube-system]"),
        ],
        "platform.tenants[0].name",
        "of Kubernetes or the platform",
        "another",
        "kube-system",
    ),
    "tenant named like its group of principal investigators": (
        [("{name: teaching, quota", "{name: admins, quota")],
        "platform.tenants[1].name",
        "is the group of each tenant's principal investigators at the issuer",
        "another name, for instance research",
        "name: admins",
    ),
    "host named like the lab's controller": (
        [("name: worker-1", "name: controller")],
        "cloud.instances[2].name",
        "OpenStack controller",
        "another",
        "controller",
    ),
    "host named like a role": (
        [("name: worker-1", "name: backup")],
        "cloud.instances[2].name",
        "is the role backup, an Ansible group whose variables the host would get",
        "another name, for instance backup-1",
        "name: backup",
    ),
    "host named like the DNS name of a role": (
        [("name: worker-1", "name: nfs")],
        "cloud.instances[2].name",
        "is the DNS name of the role nfs_server",
        "another name, for instance nfs-1",
        "name: nfs",
    ),
    "host named like a service": (
        [("name: worker-1", "name: login")],
        "cloud.instances[2].name",
        "is the hostname of platform.services.keycloak",
        "another name, for instance login-1",
        "name: login",
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
            ("{cpu: 8, memory: 16 GiB, accelerators: {v100: 1}, storage", "{cpu: 8, memory: 16 GiB, storage"),
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
}


@pytest.mark.parametrize("case", CASES)
def test_error(assert_found: Callable[[Mistake], None], case: str) -> None:
    assert_found(CASES[case])
