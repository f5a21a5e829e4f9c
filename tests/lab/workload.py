"""A Deployment of one pod that would like to run on a certain node."""

from __future__ import annotations

import json
from collections.abc import Callable

from strata.site.outputs import ImageOutputs

WORKLOAD = "change-test"
Kubectl = Callable[..., str]


def start(kubectl: Kubectl, images: ImageOutputs, node: str) -> None:
    """A workload that prefers a node, and may run on any other."""
    prefers = {
        "weight": 100,
        "preference": {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]},
    }
    spec = {
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [prefers]}},
        "containers": [{"name": "sleep", "image": str(images.images["ml-hub"]), "command": ["sleep", "3600"]}],
    }
    labels = {"app": WORKLOAD}
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": WORKLOAD},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }
    kubectl("apply", "-f", "-", input=json.dumps(manifest))


def where(kubectl: Kubectl) -> str:
    """Node of the workload's running pod; empty where there is none."""
    pods = json.loads(kubectl("get", "pods", "-l", f"app={WORKLOAD}", "-o", "json"))["items"]
    for pod in pods:
        if pod["status"]["phase"] == "Running" and not pod["metadata"].get("deletionTimestamp"):
            return str(pod["spec"]["nodeName"])
    return ""
