"""A cluster in which jobs get what the test leaves free, and notebooks get room by evicting them only."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from strata.image_reference import ImageReference
from strata.verify.pods import PodRequest, delete, status
from strata.verify.waiting import settled
from strata_bench.waiting import eventually

FACTORS = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
MIB = 2**20
ENDING_SECONDS = 300.0
"""For execution points that have no job any longer, servers of stopped notebooks, CronJobs."""
SPARE = 16 * MIB
"""Less than any notebook reserves; the sum of what pods request is rounded."""


def quantity(text: str) -> float:
    """A quantity of Kubernetes: `250m`, `1.5Gi`, `2`."""
    digits = text.rstrip("mkMGTi")
    return float(digits) * FACTORS.get(text[len(digits) :], 1)


def free(kubectl: Callable[..., str]) -> dict[str, tuple[float, float]]:
    """CPUs and bytes that no pod requests, of each node without taints."""
    nodes = json.loads(kubectl("get", "nodes", "--output=json"))["items"]
    remaining = {
        node["metadata"]["name"]: {name: quantity(node["status"]["allocatable"][name]) for name in ("cpu", "memory")}
        for node in nodes
        if not node["spec"].get("taints") and not node["spec"].get("unschedulable")
    }
    for pod in json.loads(kubectl("get", "pods", "--all-namespaces", "--output=json"))["items"]:
        left = remaining.get(pod["spec"].get("nodeName", ""))
        if left is None or pod["status"]["phase"] in ("Succeeded", "Failed"):
            continue
        for name in left:
            each = [
                [quantity(c.get("resources", {}).get("requests", {}).get(name, "0")) for c in pod["spec"].get(kind, ())]
                for kind in ("containers", "initContainers")
            ]
            left[name] -= max(sum(each[0]), *each[1], 0.0)
    return {node: (left["cpu"], left["memory"]) for node, left in remaining.items()}


def ending(kubectl: Callable[..., str]) -> list[str]:
    """Pods of Jobs, and those that are being deleted: their room is not free yet, and will be soon."""
    return [
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for pod in json.loads(kubectl("get", "pods", "--all-namespaces", "--output=json"))["items"]
        if pod["spec"].get("nodeName")
        and pod["status"]["phase"] not in ("Succeeded", "Failed")
        and (
            "deletionTimestamp" in pod["metadata"]
            or any(owner["kind"] == "Job" for owner in pod["metadata"].get("ownerReferences", ()))
        )
    ]


@contextmanager
def reserved(kubectl: Callable[..., str], image: ImageReference, cpus: float, memory: int, most: int) -> Iterator[int]:
    """Reserves the memory of all nodes without taints, but for pods of a size, once those that end have ended.

    Args:
        kubectl: of the operator.
        image: of the pods that reserve it; they use none.
        cpus: that each of the pods requests.
        memory: in bytes, that each requests.
        most: pods that may fit.

    Yields:
        how many fit.
    """
    last = settled(lambda: ending(kubectl), lambda pods: not pods, ENDING_SECONDS)
    assert not last, f"these pods did not end: {', '.join(last)}"
    left, names = most, []
    try:
        for node, (cpu, size) in sorted(free(kubectl).items()):
            fit = min(left, int(cpu / cpus), int(size / memory))
            left -= fit
            ballast = int(size - fit * memory - SPARE / 2)
            if ballast < SPARE:
                continue
            name = f"reserve-{secrets.token_hex(3)}"
            resources = {"memory": str(ballast), "cpu": "10m"}
            pod = PodRequest(name, image, ["sleep", "7200"], node=node, resources=resources).manifest()
            # not the first that a notebook evicts
            pod["spec"]["priorityClassName"] = "interactive"
            names.append(name)
            kubectl("--namespace=default", "create", "--filename=-", input=json.dumps(pod))
        eventually(
            lambda: all(status(kubectl, "default", n)["status"].get("phase") == "Running" for n in names),
            120,
            f"the pods {', '.join(names)} run",
        )
        yield most - left
    finally:
        for name in names:
            delete(kubectl, "default", name)
