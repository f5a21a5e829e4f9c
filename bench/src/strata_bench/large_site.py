"""Sites of any size, for measuring what needs no machine."""

from __future__ import annotations

import json
import math
from pathlib import Path

from strata.site.outputs import CloudOutputs, InstanceOutput
from strata.site.paths import SitePaths
from strata.site_file.loader import load_site

PER_HYPERVISOR = 20
EVERY_GPU = 4
"""One worker in so many has a card."""


def large_site(nodes: int, directory: Path) -> Path:
    """Writes a valid site with so many instances.

    Args:
        nodes: instances, at least five.
        directory: where its folder goes.

    Returns:
        The site.yaml.
    """
    name = f"bench-{nodes}"
    instances = [
        ("services-1", "cpu", ["nfs_server", "postgresql", "kine", "registry", "load_balancer"]),
        ("control-1", "cpu", ["kube_control_plane"]),
    ]
    for index in range(nodes - len(instances)):
        gpu = index % EVERY_GPU == 0
        roles = ["kube_node", "gpu_node"] if gpu else ["kube_node"]
        instances.append((f"worker-{index + 1}", "gpu" if gpu else "cpu", roles))
    cards = sum(flavor == "gpu" for _, flavor, _ in instances)
    plain = math.ceil((nodes - cards) / PER_HYPERVISOR)
    with_cards = math.ceil(cards / 8)
    hypervisors = [
        {"name": f"compute-{i + 1}", "vcpus": 128, "memory": "1 TiB", "disk": "20 TiB"} for i in range(plain)
    ]
    hypervisors += [
        {"name": f"compute-gpu-{i + 1}", "vcpus": 128, "memory": "1 TiB", "disk": "20 TiB", "accelerators": {"v100": 8}}
        for i in range(with_cards)
    ]
    site = {
        "name": name,
        "domain": f"{name}.strata.test",
        "cloud": {
            "deployment": "existing",
            "hypervisors": hypervisors,
            "project": {
                "name": "bench",
                "quota": {"instances": nodes, "cores": 4 * nodes, "memory": f"{8 * nodes} GiB"},
            },
            "networks": [{"name": "bench", "cidr": "10.128.0.0/16"}],
            "images": [{"name": "debian-13", "distribution": "debian", "release": "13"}],
            "flavors": [
                {"name": "cpu", "vcpus": 4, "memory": "8 GiB", "disk": "40 GiB"},
                {"name": "gpu", "vcpus": 4, "memory": "8 GiB", "disk": "40 GiB", "accelerators": {"v100": 1}},
            ],
            "instances": [
                {"name": n, "flavor": f, "image": "debian-13", "network": "bench", "roles": r} for n, f, r in instances
            ],
        },
        "hosts": {"nfs": {"exports": [{"name": "data", "path": "/srv/nfs/data"}]}},
        "cluster": {"name": "bench", "pod_network": "10.0.0.0/10", "service_network": "10.96.0.0/16"},
    }
    target = directory / name
    target.mkdir(parents=True)
    file = target / "site.yaml"
    head = {k: v for k, v in site.items() if k != "cloud"}
    # one line per list entry, as people write it; JSON is YAML
    lines = [f"{key}: {json.dumps(value)}" for key, value in head.items()]
    lines.append("cloud:")
    cloud = site["cloud"]
    assert isinstance(cloud, dict)
    for key, value in cloud.items():
        if isinstance(value, list):
            lines += [f"  {key}:", *(f"    - {json.dumps(entry)}" for entry in value)]
        else:
            lines.append(f"  {key}: {json.dumps(value)}")
    file.write_text("\n".join(lines) + "\n")
    return file


def pretend_up(file: Path, nodes: int) -> None:
    """Writes the cloud layer's outputs as if the site ran; the state directory must be a temporary one."""
    site = load_site(file)
    assert site.cloud is not None
    instances = {
        i.name: InstanceOutput(
            id=f"{n:08x}-0000-0000-0000-000000000000",
            name=i.name,
            address=f"10.128.{(n + 10) // 250}.{(n + 10) % 250 + 1}",
            flavor=i.flavor,
            roles=tuple(i.roles),
        )
        for n, i in enumerate(site.cloud.instances[:nodes])
    }
    CloudOutputs(instances=instances, networks={}).save(SitePaths(site.name).create())
