"""Volumes on the site's NFS server, as pods use them."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from strata.catalogue.site_volumes import MountedVolume, volumes
from strata.models.site import Site
from strata.site.host_list import hosts_with
from strata.site.outputs import CloudOutputs, ImageOutputs
from strata.verify import pods
from strata.verify.needs import CLUSTER, TENANT_VOLUMES, VOLUMES, needs
from strata.verify.pods import Kubectl, PodRequest

pytestmark = needs(CLUSTER, VOLUMES)
TOLERATE_ALL = [{"operator": "Exists"}]
NOBODY = 65534
WRITE = """
import hashlib, os, sys
data = os.urandom(1 << 20)
with open(sys.argv[1], "wb") as file:
    file.write(data)
print(sys.argv[2], hashlib.sha256(data).hexdigest())
"""
READ = """
import hashlib, os, sys
with open(sys.argv[1], "rb") as file:
    print(sys.argv[2], hashlib.sha256(file.read()).hexdigest())
os.remove(sys.argv[1])
"""


@pytest.fixture(scope="module")
def writable(site: Site) -> tuple[MountedVolume, ...]:
    """The volumes that pods may write."""
    return tuple(volume for volume in volumes(site) if not volume.read_only)


def test_volume_is_shared_between_nodes(
    site: Site,
    cloud_outputs: CloudOutputs | None,
    kubectl: Kubectl,
    images: ImageOutputs,
    writable: tuple[MountedVolume, ...],
) -> None:
    """A pod reads on another node what a pod wrote, byte for byte, in every volume"""
    nodes = [host.name for host in hosts_with("kube_node", site, cloud_outputs)]
    namespaces: dict[str, list[MountedVolume]] = defaultdict(list)
    for volume in writable:
        namespaces[volume.namespace].append(volume)

    def digests(mounted: list[MountedVolume]) -> list[list[str]]:
        """What one pod per action reports of each volume of a namespace."""
        token = secrets.token_hex(4)

        def request(volume: MountedVolume, action: str, program: str, node: str) -> PodRequest:
            return PodRequest(
                name=f"verify-{action}-{token}",
                image=images.images["pod-base"],
                command=["python3", "-c", program, f"/volume/.strata-verify-{token}", volume.claim],
                node=node,
                tolerations=TOLERATE_ALL,
                claim=volume.claim,
                identity=(volume.owner or NOBODY, volume.group),
            )

        said = []
        for action in (("write", WRITE, nodes[0]), ("read", READ, nodes[-1])):
            first, *others = (request(volume, *action) for volume in mounted)
            output, _ = pods.run(kubectl, mounted[0].namespace, replace(first, beside=others))
            said.append(sorted(output.splitlines()))  # kubectl prints the logs of containers in any order
        return said

    with ThreadPoolExecutor(len(namespaces)) as pool:  # a pod waits more than it works
        results = list(pool.map(digests, namespaces.values()))
    for mounted, (written, read) in zip(namespaces.values(), results, strict=True):
        names = ", ".join(f"{volume.namespace}/{volume.claim}" for volume in mounted)
        assert len(written) == len(mounted), names
        assert written == read, f"{names} from {nodes[0]} to {nodes[-1]}"


@needs(TENANT_VOLUMES)
def test_pods_cannot_name_an_nfs_server(
    site: Site, kubectl: Kubectl, images: ImageOutputs, writable: tuple[MountedVolume, ...]
) -> None:
    """A pod that mounts an export by itself, as any user, is rejected at creation"""
    # where Pod Security allows NFS volumes
    tenants = {tenant.name for tenant in site.platform.tenants}
    namespace = next(volume.namespace for volume in writable if volume.namespace in tenants)
    name = f"verify-inline-{secrets.token_hex(3)}"
    manifest = PodRequest(name, images.images["pod-base"], ["true"]).manifest()
    manifest["spec"]["volumes"] = [{"name": "any", "nfs": {"server": f"nfs.{site.domain}", "path": "/"}}]
    try:
        said = kubectl("--namespace", namespace, "create", "--filename", "-", input=json.dumps(manifest), check=False)
        assert "PersistentVolumeClaim" in said, said
    finally:
        with contextlib.suppress(AssertionError):
            pods.delete(kubectl, namespace, name)
