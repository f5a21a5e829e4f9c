"""What a pod of a user is in Kubernetes: a Pod and a Service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lightkube.models.core_v1 import Pod as PodModel

from pods.images import Image
from pods.paths import parts_of
from pods.settings import Tenant
from pods.spec import PodSpec
from pods.storage import sub_path

MANAGER = "strata-pods"
"""Owner of the objects' fields, and value of their label `managed-by`."""
LABELS = {"app.kubernetes.io/managed-by": MANAGER}
POD_LABEL = "strata.dev/pod"
RUN_ANNOTATION = "strata.dev/run"
USER_ANNOTATION = "strata.dev/user"
"""Whose use accounting records."""
CONTAINER = "main"
GRACE_SECONDS = 2
"""From SIGTERM to SIGKILL. Many programs ignore SIGTERM as the first process; the kubelet takes about 2 s more."""
Manifest = dict[str, Any]


def object_name(pod_id: str) -> str:
    """Of all objects of a pod; no other service uses the prefix."""
    return f"pods-{pod_id}"


def run_of(pod: PodModel) -> int:
    """The run that a Pod belongs to; 0 if it names none."""
    text = ((pod.metadata.annotations if pod.metadata else None) or {}).get(RUN_ANNOTATION, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def metadata(pod_id: str, tenant: Tenant, run: int, name: str = "") -> Manifest:
    """Of an object of a pod.

    Args:
        pod_id: of the pod.
        tenant: in whose namespace it is.
        run: that it belongs to.
        name: of the object; empty: the pod's.
    """
    return {
        "name": name or object_name(pod_id),
        "namespace": tenant.name,
        "labels": {**LABELS, POD_LABEL: pod_id},
        "annotations": {RUN_ANNOTATION: str(run)},
    }


@dataclass(frozen=True)
class Volumes:
    """Where volumes are in a tenant's namespace.

    Args:
        claim: name of the PersistentVolumeClaim.
        group: numeric group that may write.
    """

    claim: str
    group: int


def pod(
    pod_id: str, run: int, spec: PodSpec, tenant: Tenant, owner: str, priority_class: str, volumes: Volumes
) -> Manifest:
    """The Pod of one run.

    The image's user may be root, which has no capabilities here: the tenant's namespace allows no more to any pod.
    """
    resources = spec.resources
    limits = {"cpu": f"{resources.cpu_limit}m", "memory": f"{resources.mem_limit}Mi"}
    requests = {"cpu": f"{resources.cpu_request}m", "memory": f"{resources.mem_request}Mi"}
    variables = {**tenant.environment, **spec.environment_variables}
    container: Manifest = {
        "name": CONTAINER,
        "image": str(Image.parse(spec.image)),
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": name, "value": value} for name, value in sorted(variables.items())],
        "ports": [{"containerPort": entry.port, "protocol": "TCP"} for entry in spec.networking.values()],
        "securityContext": {"allowPrivilegeEscalation": False, "privileged": False, "capabilities": {"drop": ["ALL"]}},
        "resources": {"limits": limits, "requests": requests},
        # the end of the log is what users see of a failed start
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if spec.command is not None:
        container["command"] = spec.command
    if spec.arguments is not None:
        container["args"] = spec.arguments
    body: Manifest = {
        # a server that fails starts again; one that ends is COMPLETE
        "restartPolicy": "OnFailure",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    if spec.volume_mounts:
        _mount(body, container, spec, volumes)
    if priority_class:
        body["priorityClassName"] = priority_class
    if resources.gpus and tenant.gpus is not None:
        limits[tenant.gpus.resource] = requests[tenant.gpus.resource] = str(resources.gpus)
        body["nodeSelector"] = tenant.gpus.node_selector
        body["tolerations"] = tenant.gpus.tolerations
    meta = metadata(pod_id, tenant, run)
    meta["annotations"][USER_ANNOTATION] = owner
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body}


def _mount(body: Manifest, container: Manifest, spec: PodSpec, volumes: Volumes) -> None:
    """The kubelet resolves sub-paths: a link that leads out of the volume makes it refuse the container."""
    mounts = sorted(spec.volume_mounts.values(), key=lambda mount: mount.mount_path)
    container["volumeMounts"] = [
        {
            "name": "volumes" if mount.writable else "read-only",
            "mountPath": mount.mount_path,
            "subPath": sub_path(mount.kind, mount.source_id, parts_of(mount.sub_path)),
            "readOnly": not mount.writable,
        }
        for mount in mounts
    ]
    sources = {mount.writable: {"claimName": volumes.claim, "readOnly": not mount.writable} for mount in mounts}
    body["volumes"] = [
        {"name": "volumes" if writable else "read-only", "persistentVolumeClaim": source}
        for writable, source in sorted(sources.items())
    ]
    # volumes belong to a group, so that users of all images may write
    body["securityContext"]["supplementalGroups"] = [volumes.group]


def service(pod_id: str, run: int, spec: PodSpec, tenant: Tenant) -> Manifest | None:
    """The Service in front of the Pod, with a port for each entry of `networking`; None without any."""
    if not spec.networking:
        return None
    ports = [
        {"name": f"p{entry.port}", "port": entry.port, "targetPort": entry.port, "protocol": "TCP"}
        for _, entry in sorted(spec.networking.items())
    ]
    body = {"type": "ClusterIP", "selector": {**LABELS, POD_LABEL: pod_id}, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata(pod_id, tenant, run), "spec": body}
