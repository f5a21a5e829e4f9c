"""The cluster layer: Kubernetes."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from strata.models.accelerators import LONG_TERM_BRANCH
from strata.models.base import Model, Unit
from strata.models.kubespray import Kubespray
from strata.models.types import DnsLabel, IPv4Net, LabelKey, LabelValue, Taint

Replicas = Annotated[int, Unit("pods"), Field(strict=True, ge=2, le=64)]


def _default_labels() -> dict[str, str]:
    return {"strata.dev/pool": "gpu"}


class Sharing(Model):
    """How the pods of GPU nodes share NVIDIA GPUs."""

    layer: ClassVar[str] = "cluster"
    time_slicing: Annotated[
        Replicas | None, Field(description="Pods per GPU, or per MIG instance, in turns. Memory is not divided.")
    ] = None
    mps: Annotated[
        Replicas | None,
        Field(description="Pods per GPU at the same time, each with an equal part of memory and threads."),
    ] = None
    mig: Annotated[
        str | None,
        Field(
            pattern=r"^[1-9]g\.[1-9][0-9]*gb$",
            description="MIG profile that each GPU is cut into, as often as it fits (mig-parted's all-PROFILE).",
        ),
    ] = None


class GpuPool(Model):
    """GPU nodes that share their GPUs in the same way."""

    layer: ClassVar[str] = "cluster"
    name: Annotated[DnsLabel, Field(description="Name of the pool; the node label nvidia.com/device-plugin.config.")]
    nodes: Annotated[tuple[DnsLabel, ...], Field(min_length=1, description="Names of hosts with the role gpu_node.")]
    sharing: Annotated[Sharing, Field(description="How pods share the GPUs of these nodes.")]


class GpuNodes(Model):
    """What marks the nodes with the role gpu_node."""

    layer: ClassVar[str] = "cluster"
    labels: Annotated[dict[LabelKey, LabelValue], Field(description="Labels of GPU nodes.")] = Field(
        default_factory=_default_labels
    )
    taints: Annotated[
        tuple[Taint, ...],
        Field(description="Taints of GPU nodes, key=value:effect; they keep pods without a GPU away."),
    ] = ("nvidia.com/gpu=present:NoSchedule",)
    driver_branch: Annotated[
        int,
        Field(
            strict=True,
            ge=LONG_TERM_BRANCH,
            le=9999,
            description="Branch of NVIDIA's driver on nodes with real GPUs. Default: the long-term branch.",
        ),
    ] = LONG_TERM_BRANCH
    cuda: Annotated[
        int | None,
        Unit("major version"),
        Field(
            strict=True,
            ge=11,
            le=99,
            description="CUDA that the site's images are built with; refused where a GPU's support has ended.",
        ),
    ] = None
    device_plugin: Annotated[
        Literal["nvidia", "built-in", "none"] | None,
        Field(
            description="What offers NVIDIA GPUs to pods. nvidia: NVIDIA's device plugin with GPU feature discovery. "
            "built-in: Strata's, for GPUs without hardware. none: others install one, such as the GPU operator. "
            "Default: nvidia; in the lab built-in."
        ),
    ] = None
    pools: Annotated[
        tuple[GpuPool, ...],
        Field(description="Nodes whose GPUs are shared. Nodes of no pool give each pod whole GPUs."),
    ] = ()


class Cluster(Model):
    """A Kubernetes cluster on hosts with the roles kube_control_plane and kube_node."""

    layer: ClassVar[str] = "cluster"
    name: Annotated[DnsLabel, Field(description="Name of the cluster.")]
    installer: Annotated[
        Literal["kubeadm", "kubespray"],
        Field(description="kubeadm: small and quick. kubespray: the installer of real sites."),
    ] = "kubeadm"
    datastore: Annotated[
        Literal["kine", "etcd"],
        Field(
            description="kine: on the site's PostgreSQL, needs a host with the role kine. etcd: on the control plane."
        ),
    ] = "kine"
    pod_network: Annotated[IPv4Net, Field(description="Addresses of pods; each node takes a /24 of it.")] = IPv4Network(
        "10.244.0.0/16"
    )
    service_network: Annotated[IPv4Net, Field(description="Addresses of services.")] = IPv4Network("10.96.0.0/16")
    gpu_nodes: Annotated[GpuNodes, Field(description="Labels and taints of nodes with the role gpu_node.")] = GpuNodes()
    kubespray: Annotated[
        Kubespray | None, Field(description="kubespray: what differs from the defaults of a cluster by Kubespray.")
    ] = None
