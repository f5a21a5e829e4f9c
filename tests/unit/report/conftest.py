"""A lab that runs, as its layers would answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strata.observe import CloudFacts, ClusterFacts, HostFacts, Observation, PlatformFacts, PodFacts, ServerFacts
from strata.observe.facts import ServiceFacts
from strata.observe.hosts import host_roles
from strata.platform.releases import releases
from strata.roles import units_of
from strata.site.context import SiteContext
from strata.site.host_list import running_roles
from strata.site.outputs import CloudOutputs, InstanceOutput

V100 = ("10de", "1db4")


@pytest.fixture
def running(context: SiteContext) -> Callable[..., Observation]:
    """What is seen when all is well; `running(pod="name")` gives the GPU worker's card to a pod of that name."""
    assert context.site.cloud is not None
    instances = {
        i.name: InstanceOutput(
            id=f"id-{i.name}", name=i.name, address=f"10.77.0.{20 + n}", flavor=i.flavor, roles=tuple(i.roles)
        )
        for n, i in enumerate(context.site.cloud.instances)
    }
    CloudOutputs(instances=instances, networks={}).save(context.paths)

    def see(pod: str | None = None, namespace: str = "research") -> Observation:
        hosts = {
            name: HostFacts(
                units=dict.fromkeys(units_of(running_roles(context.site, roles)), "active"),
                devices={"0000:10:00.0": V100} if name == "gpu-worker-1" else {},
                assigned={"0000:10:00.0": "uid-1"} if pod and name == "gpu-worker-1" else {},
            )
            for name, roles in host_roles(context).items()
        }
        pods = [
            PodFacts(
                uid="uid-1",
                namespace=namespace,
                name=pod,
                node="gpu-worker-1",
                ready=True,
                devices={"nvidia.com/gpu": 1},
            )
            for pod in [pod]
            if pod
        ]
        return Observation(
            cloud=CloudFacts(
                servers={
                    name: ServerFacts(
                        id=i.id,
                        status="ACTIVE",
                        hypervisor="compute-gpu-1" if name == "gpu-worker-1" else "compute-1",
                    )
                    for name, i in instances.items()
                },
                hypervisors={"compute-1": "up", "compute-gpu-1": "up"},
                flavors=frozenset({"cpu.small", "cpu.medium", "gpu.v100.1", "gpu.v100.2"}),
            ),
            hosts=hosts,
            cluster=ClusterFacts(
                nodes=dict.fromkeys(("control-1", "worker-1", "gpu-worker-1"), "Ready"), pods=tuple(pods)
            ),
            platform=PlatformFacts(releases={release.key: "deployed" for release in releases(context.site)}),
            services=ServiceFacts(),
            seconds=1.5,
        )

    return see
