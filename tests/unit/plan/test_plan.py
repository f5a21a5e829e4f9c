"""The offline plan."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from strata.models.site import Site
from strata.plan import plan, render
from strata.site_file.inventories import find_site, site_names
from strata.site_file.loader import load_site


def _text(site: Site, layers: tuple[str, ...] = ("cloud", "hosts", "cluster", "platform")) -> str:
    stream = io.StringIO()
    render(plan(site), Console(file=stream, width=200), layers)
    return stream.getvalue()


def _large_site(nodes: int) -> str:
    hypervisors = "".join(
        f"    - {{name: hv-{i}, vcpus: 64, memory: 256 GiB, disk: 2 TiB, accelerators: {{v100: 4}}}}\n"
        for i in range(nodes // 4)
    )
    workers = "".join(
        f"    - {{name: w-{i}, flavor: gpu, image: debian-13, network: net, roles: [kube_node, gpu_node]}}\n"
        for i in range(nodes - 1)
    )
    return f"""name: large
domain: large.example.org
cloud:
  deployment: existing
  project: {{name: p, quota: {{instances: {nodes}, cores: {8 * nodes}, memory: {16 * nodes} GiB}}}}
  networks: [{{name: net, cidr: 10.0.0.0/16}}]
  images: [{{name: debian-13, distribution: debian, release: "13"}}]
  flavors:
    - {{name: cpu, vcpus: 8, memory: 16 GiB, disk: 20 GiB}}
    - {{name: gpu, vcpus: 8, memory: 16 GiB, disk: 20 GiB, accelerators: {{v100: 1}}}}
  hypervisors:
{hypervisors}  instances:
    - {{name: control-1, flavor: cpu, image: debian-13, network: net, roles: [kube_control_plane]}}
{workers}cluster: {{name: large, datastore: etcd, pod_network: 172.16.0.0/12, service_network: 192.168.0.0/16}}
"""


@pytest.mark.parametrize("name", site_names())
def test_every_site_plans_and_reads_as_json(name: str) -> None:
    site = load_site(find_site(name))
    made = plan(site)
    assert json.loads(json.dumps(made.model_dump(mode="json")))["site"] == name
    assert f"site {name}" in _text(site)


def test_lab_cloud() -> None:
    cloud = plan(load_site(find_site("lab"))).cloud
    assert cloud is not None
    flavors = {f.name: f.extra_specs for f in cloud.flavors}
    assert flavors["gpu.v100.2"]["pci_passthrough:alias"] == "v100:2"
    assert flavors["cpu.small"]["aggregate_instance_extra_specs:gpu"] == "none"
    assert {a.metadata["gpu"]: a.hosts for a in cloud.aggregates} == {
        "none": ("compute-1",),
        "v100": ("compute-gpu-1",),
    }
    assert [i.accelerators for i in cloud.instances] == [{}, {}, {}, {"v100": 1}]
    assert cloud.router is not None
    assert (cloud.router.external_network, cloud.router.networks) == ("public", ("platform",))
    assert cloud.router.cidr == "10.87.0.0/24"
    services = cloud.instances[0]
    assert "lab-registry" in services.security_groups
    assert "lab-registry" not in cloud.instances[1].security_groups


def test_lab_hosts_and_cluster() -> None:
    made = plan(load_site(find_site("lab")))
    assert {"ml_hub", "kine"} <= set(made.hosts.databases)
    assert made.cluster is not None
    nodes = {n.name: n for n in made.cluster.nodes}
    assert set(nodes) == {"control-1", "worker-1", "gpu-worker-1"}
    assert nodes["gpu-worker-1"].labels == {"strata.dev/pool": "gpu", "strata.dev/accelerator.v100": "true"}
    assert nodes["gpu-worker-1"].taints == ("nvidia.com/gpu=present:NoSchedule",)
    assert nodes["worker-1"].labels == {}
    assert nodes["control-1"].control_plane


def test_lab_releases() -> None:
    platform = plan(load_site(find_site("lab"))).platform
    assert platform is not None
    releases = {r.name: (r.namespace, r.address) for r in platform.releases}
    # services may come and go
    assert (
        releases.items()
        >= {
            "cluster-base": ("kube-system", None),
            "traefik": ("traefik", None),
            "tenant-research": ("strata-system", None),
            "shared-volumes": ("strata-system", None),
            "ml-hub": ("strata-system", "https://ml-hub.lab.strata.test/"),
        }.items()
    )


def test_one_layer() -> None:
    text = _text(load_site(find_site("lab")), ("platform",))
    assert "ml-hub" in text
    assert "compute-gpu-1" not in text


def test_a_site_of_machines_has_no_cloud() -> None:
    made = plan(load_site(find_site("nautilus")))
    assert made.cloud is None
    assert {h.institution for h in made.hosts.hosts} >= {"calit2", "ucsc"}


def test_a_thousand_nodes(tmp_path: Path) -> None:
    """The plan stays a page; `scripts/bench plan` has its time."""
    file = tmp_path / "site.yaml"
    file.write_text(_large_site(1000))
    assert "… and 970 more" in _text(load_site(file))


def test_five_thousand_nodes_are_not_a_huge_file(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text(_large_site(5000).replace("172.16.0.0/12", "100.64.0.0/10"))
    assert len(load_site(file).cloud.instances) == 5000  # type: ignore[union-attr]
