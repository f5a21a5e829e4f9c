"""The cluster layer: Kubernetes."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated, Literal

from pydantic import Field

from strata.models.accelerator_catalogue import LONG_TERM_BRANCH
from strata.models.base import Model, Unit
from strata.models.kubespray import Kubespray
from strata.models.types import DnsLabel, IPv4Net, LabelKey, LabelValue, Taint

Replicas = Annotated[int, Unit("pods"), Field(strict=True, ge=2, le=64)]


def _default_labels() -> dict[str, str]:
    return {"strata.dev/pool": "gpu"}


class Sharing(Model):
    """How the pods of GPU nodes share NVIDIA GPUs."""

    time_slicing: Annotated[
        Replicas | None, Field(description="Pods that use a GPU, or a MIG instance, in turns. Memory is not divided.")
    ] = None
    mps: Annotated[
        Replicas | None,
        Field(description="Pods that use a GPU at the same time, each with an equal share of memory and threads."),
    ] = None
    mig: Annotated[
        str | None,
        Field(
            pattern=r"^[1-9]g\.[1-9][0-9]*gb$",
            description="MIG profile; each GPU is partitioned into as many as fit (mig-parted's all-PROFILE).",
        ),
    ] = None


class GpuPool(Model):
    """GPU nodes with the same way of sharing GPUs."""

    name: Annotated[
        DnsLabel, Field(description="Name of the pool, and value of the node label nvidia.com/device-plugin.config.")
    ]
    nodes: Annotated[tuple[DnsLabel, ...], Field(min_length=1, description="Names of hosts with the role gpu_node.")]
    sharing: Annotated[Sharing, Field(description="How pods share the GPUs of these nodes.")]


class GpuNodes(Model):
    """Settings of the nodes with the role gpu_node."""

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
            description="CUDA version of the site's images; refused if it does not support one of the GPUs.",
        ),
    ] = None
    device_plugin: Annotated[
        Literal["nvidia", "built-in", "none"] | None,
        Field(
            description="Device plugin for GPUs. nvidia: NVIDIA's, with GPU feature discovery, for NVIDIA's GPUs. "
            "built-in: Strata's, for GPUs without hardware. none: others install one, such as the GPU operator. "
            "Default: nvidia; in the lab built-in."
        ),
    ] = None
    pools: Annotated[
        tuple[GpuPool, ...],
        Field(description="Nodes whose GPUs are shared. On other nodes, a pod gets whole GPUs."),
    ] = ()


class Cluster(Model):
    """A Kubernetes cluster on hosts with the roles kube_control_plane and kube_node."""

    name: Annotated[DnsLabel, Field(description="Name of the cluster.")]
    installer: Annotated[
        Literal["kubeadm", "kubespray"],
        Field(description="kubeadm: small and fast. kubespray: for production sites."),
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
    gpu_nodes: Annotated[GpuNodes, Field(description="Settings of the nodes with the role gpu_node.")] = GpuNodes()
    kubespray: Annotated[Kubespray | None, Field(description="kubespray: settings of Kubespray.")] = None
