"""What a user may choose of a cluster, and the pods that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web
from dask_gateway_server.options import Float, Integer, Options, Select, String

GIB = 2**30
USER_ID = 1000
"""Of the notebook image, which all pods have."""
CONTAINER = {
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    },
    "volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}],  # noqa: S108  # of the container
    "workingDir": "/tmp",  # noqa: S108  # of the container
}
"""Pod Security `restricted`; workers spill to the node's disk."""


def cluster_options(settings: Mapping[str, Any]) -> Callable[[Any], Options]:
    """The function that the gateway calls for the options of a user.

    Args:
        settings: of the chart: `tenants` (name and group), `users` (tenants of users who are in none), `worker`,
            `scheduler`, `scratch` (bytes), `priorities`.
    """

    def of(user: Any) -> Options:
        tenants = [tenant["name"] for tenant in settings["tenants"] if tenant["group"] in user.groups]
        tenants = tenants or [settings["users"][name] for name in (user.name,) if name in settings["users"]]
        if not tenants:
            raise web.HTTPForbidden(reason=f"{user.name} is in no tenant of the site, and cannot have Dask clusters")
        worker = settings["worker"]
        return Options(
            Select("tenant", tenants, label="Tenant"),
            String("image", label="Image"),
            Integer("worker_cores", default=1, min=1, max=worker["cpu"], label="Cores of a worker"),
            Float(
                "worker_memory",
                default=min(1.0, worker["memory"] / GIB),
                min=0.125,
                max=worker["memory"] / GIB,
                label="Memory of a worker (GiB)",
            ),
            handler=lambda options, user: _configuration(settings, options, user),
        )

    return of


def _configuration(settings: Mapping[str, Any], options: Any, user: Any) -> dict[str, Any]:
    """Traits of KubeClusterConfig."""
    if not options.image:
        raise ValueError("no image: use the client of a notebook, which sets its own, or set the option image")
    reserved = settings["worker"]["millicpusPerCpu"] / 1000
    memory = int(options.worker_memory * GIB)
    # accounting reads the user there, and the tenant from the namespace; a label does not take all names
    annotations = {"hub.jupyter.org/username": user.name}
    configuration: dict[str, Any] = {
        "namespace": options.tenant,
        "image": options.image,
        "worker_cores": options.worker_cores * reserved,
        "worker_cores_limit": options.worker_cores,
        "worker_threads": options.worker_cores,
        "worker_memory": memory,
        "worker_memory_limit": memory,
        "scheduler_cores": reserved,
        "scheduler_cores_limit": 1,
        "scheduler_memory": settings["scheduler"]["memory"],
        "scheduler_memory_limit": settings["scheduler"]["memory"],
    }
    for part in ("scheduler", "worker"):
        configuration[f"{part}_extra_pod_annotations"] = annotations
        configuration[f"{part}_extra_container_config"] = CONTAINER
        configuration[f"{part}_extra_pod_config"] = {
            "enableServiceLinks": False,
            "priorityClassName": settings["priorities"][part],
            "securityContext": {"runAsUser": USER_ID, "runAsGroup": USER_ID, "fsGroup": USER_ID},
            "terminationGracePeriodSeconds": 5,
            "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": settings["scratch"]}}],
        }
    return configuration
