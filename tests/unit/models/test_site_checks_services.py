"""Errors in roles, the cluster, exports, certificates and services."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .conftest import LAB, Edit, Mistake

WORKER = "{name: worker-1, flavor: cpu.medium, image: debian-12, network: platform, roles: [kube_node]}"
GPU = "{name: gpu-worker-1, flavor: gpu.v100.1, image: debian-12, network: platform, roles: [kube_node, gpu_node]}"
CONTROL_PLANES = "\n    - ".join(
    WORKER.replace("worker-1", name).replace("kube_node", "kube_control_plane") for name in ("control-2", "control-3")
)
BY_KUBESPRAY = (
    ("installer: kubeadm", "kubespray: {variables: {kube_proxi_mode: ipvs}}\n  installer: kubespray"),
    ("datastore: kine", "datastore: etcd"),
    ("postgresql, kine, registry", "postgresql, registry"),
)
NO_API = (LAB[LAB.index("    authenticator:") : LAB.index("    ml_hub:")], "")
NO_NOTEBOOKS = (LAB[LAB.index("    jupyterhub:\n") :], "")
NO_HUB = (LAB[LAB.index("    hub_mirror:") : LAB.index("    prometheus_server:")], "")
NO_BUCKETS = ("    object_storage: {}\n", "")
NO_PODS = (LAB[LAB.index("    tapis_pods:") : LAB.index("    ml_hub:")], "")
"""Takes a service away, whose needs would be reported too."""

MEMBER = "{{name: {}, email: {}}}"


def people(research: str, teaching: str) -> list[Edit]:
    """Edits that give each tenant a member."""
    return [
        (f"group_id: {group}}}", f"group_id: {group}, members: [{member}]}}")
        for group, member in ((20001, research), (20002, teaching))
    ]


CASES: dict[str, Mistake] = {
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
            ("registry, load_balancer,", "registry,"),
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
    "a variable that Kubespray does not know": (
        BY_KUBESPRAY,
        "cluster.kubespray.variables.kube_proxi_mode",
        "is not a variable of the pinned Kubespray",
        "a name in tools/kubespray/names.json",
        "kube_proxi_mode",
    ),
    "a variable that Strata sets": (
        [*BY_KUBESPRAY, ("kube_proxi_mode", "kube_proxy_mode")],
        "cluster.kubespray.variables.kube_proxy_mode",
        "is set by Strata",
        "remove it",
        "kube_proxy_mode",
    ),
    "GPU node that is not a node": (
        [
            ("[kube_node, gpu_node]", "[gpu_node]"),
            ("accelerators: {v100: 1}, storage: 2 GiB}, group_id", "accelerators: {}}, group_id"),
            (", tenants: [research]}", "}"),
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
    "devices of a hypervisor that no role prepares": (
        [("disk: 200 GiB, accelerators: {v100: 2}}", "disk: 200 GiB, accelerators: {v100: 2}, pci_passthrough: {}}")],
        "cloud.hypervisors[1].pci_passthrough",
        "is for deployment: kolla",
        "list compute-gpu-1 in hosts.machines",
        "compute-gpu-1",
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
        "below hosts: load_balancer: {virtual_address: …}, or remove load_balancer here",
        "load_balancer",
    ),
    "exports without a server": (
        [("[nfs_server, postgresql", "[postgresql"), NO_NOTEBOOKS, NO_BUCKETS, NO_PODS, NO_HUB],
        "hosts.nfs",
        "role nfs_server",
        "give a host",
        "nfs: {exports",
    ),
    "server without exports": (
        [
            (next(f"{line}\n" for line in LAB.splitlines() if line.startswith("  nfs: ")), ""),
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
    "exports with one number": (
        [("exports: [", "exports: [{name: data214, path: /srv/nfs/a}, {name: data319, path: /srv/nfs/b}, ")],
        "hosts.nfs.exports[1].name",
        "has the export id of data214, 20022, by which the server distinguishes exports "
        "(line 39: hosts.nfs.exports[0].",
        "another name",
        "data319",
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
    "two users with one address": (
        people(MEMBER.format("carol", "Carol@example.org"), MEMBER.format("dave", "carol@Example.org")),
        "platform.tenants[1].members[0].email",
        "is the address of carol, too (line 54: platform.tenants[0].members[0].email)",
        "another address, or none",
        "name: teaching",
    ),
    "a user with two addresses": (
        people(MEMBER.format("carol", "carol@example.org"), MEMBER.format("carol", "c@example.org")),
        "platform.tenants[1].members[0].email",
        "carol has another address, too (line 54: platform.tenants[0].members[0].email)",
        "one address for carol in all tenants, or another name",
        "name: teaching",
    ),
    "a user named with two letters": (
        people("{name: al}", "{name: ada}"),
        "platform.tenants[0].members[0].name",
        "3 to 32",
        "for instance ada",
        "name: research",
    ),
    "a user named like a service account": (
        people("{name: service-account-ada}", "{name: ada}"),
        "platform.tenants[0].members[0].name",
        "not beginning with a digit, a dash or service-account-",
        "for instance ada",
        "name: research",
    ),
    "an address that Keycloak refuses": (
        people(MEMBER.format("carol", "a..b@-x.y"), "{name: ada}"),
        "platform.tenants[0].members[0].email",
        "must be an e-mail address",
        "for instance ada@example.org",
        "name: research",
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
    "ACME without a volume": (
        [
            ("  storage_class: {export: claims}\n", "  ingress: {certificate: {source: acme, email: a@b.org}}\n"),
            (", storage: 2 GiB}", "}"),
            NO_HUB,
        ],
        "platform.ingress.certificate.source",
        "the site has no storage class",
        "platform: {storage_class: {export: NAME}}",
        "source: acme",
    ),
    "storage class of a certificate that is not requested": (
        [("platform:\n", "platform:\n  ingress: {certificate: {storage_class: ceph}}\n")],
        "platform.ingress.certificate.storage_class",
        "is only for source: acme",
        "source: acme",
        "ceph",
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
            ("access: #", "secrets: [{name: ml_hub_login_client_secret, source: environment}]\naccess: #"),
            ("    accounting: {measurements: {}}\n", ""),
            NO_API,
            NO_HUB,
            NO_NOTEBOOKS,
        ],
        "platform.services.ml_hub",
        "database ml_hub",
        "role postgresql",
        "ml_hub: {hostname",
    ),
    "ML hub without issuer": (
        [("    keycloak: {hostname: login}\n", ""), ("{measurements: {}}", "{}"), NO_API, NO_HUB, NO_NOTEBOOKS],
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

CLAIMS = "{name: claims, path: /srv/nfs/claims, root: true}"
CASES |= {
    "storage class without its export": (
        [("storage_class: {export: claims}", "storage_class: {export: claim}")],
        "platform.storage_class.export",
        "no NFS export has this name",
        "claims",
        "export: claim}",
    ),
    "claims where root is nobody": (
        [(CLAIMS, CLAIMS.replace(", root: true", ""))],
        "platform.storage_class.export",
        "the provisioner writes as root",
        "root: true",
        "export: claims}",
    ),
    "claims that others may mount": (
        [(CLAIMS, CLAIMS.replace("root: true", "root: true, clients: [192.0.2.0/24]"))],
        "platform.storage_class.export",
        "would read every claim",
        "without clients",
        "export: claims}",
    ),
    "claims among folders of tenants": (
        [(CLAIMS, CLAIMS.replace("root: true", "root: true, tenants: true"))],
        "platform.storage_class.export",
        "has tenants: true",
        "an export of its own",
        "export: claims}",
    ),
    "storage without a storage class": (
        [("  storage_class: {export: claims}\n", ""), NO_HUB],
        "platform.tenants[0].quota.storage",
        "which the site does not have",
        "storage_class: {export: NAME}",
        "storage: 2 GiB",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_error(assert_found: Callable[[Mistake], None], case: str) -> None:
    assert_found(CASES[case])
