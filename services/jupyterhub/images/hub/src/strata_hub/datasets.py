"""Datasets that a tenant registers, and how the servers of its members get them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from strata_hub import nfs, sources
from strata_hub.configuration import GROUP_NAME, InvalidConfigurationError
from strata_hub.store import Store

KIND = "datasets"
"""Of the entries in the store."""
DIRECTORY = "/datasets"
"""All mount paths are below it: elsewhere, a dataset could replace the home or programs, and be code that runs as the
user."""
MOUNT_PATH = re.compile(rf"{DIRECTORY}(/[A-Za-z0-9][A-Za-z0-9._-]{{0,62}}){{1,4}}")
KEYS = ("source", "endpoint", "region", "sha256", "mount_path", "read_only", "required")
LOGIN = re.compile("key|secret|token|password|credential|user", re.IGNORECASE)
"""In names of keys that datasets do not have: their values are not for messages."""
NOTES_BYTES = 2**20
"""For the files in the folders of unreachable datasets."""
MOST = 16
"""Datasets of a tenant: their reports are to fit into a container's message."""
CONTAINER = "datasets"
"""Name of the init container and of its volume."""
VARIABLE = "DATASETS"
REPORT = "/dev/termination-log"
"""What a container writes there is in its status, which the hub reads anyway."""
SECURITY_CONTEXT = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@dataclass(frozen=True)
class Downloads:
    """What the site allows of downloads.

    Args:
        bytes: of one dataset.
        seconds: for all datasets of a server.
        authorities: PEM of CAs beside the public ones.
    """

    bytes: int
    seconds: int
    authorities: str


def of(store: Store) -> dict[str, dict[str, Any]]:
    """A tenant's datasets by name."""
    return {name: value for (kind, name), value in store.all().items() if kind == KIND}


def validate(name: str, value: Any, others: Mapping[str, Mapping[str, Any]], allowed: sources.Allowed) -> None:
    """Accepts a dataset.

    Args:
        name: of the dataset.
        value: as it came, JSON.
        others: the tenant's datasets.
        allowed: sources of the tenant.

    Raises:
        InvalidConfigurationError: a key or value is not allowed.
    """
    if not GROUP_NAME.fullmatch(name):
        raise InvalidConfigurationError("name", name, "is not a dataset's name", "lower-case letters, digits and -")
    if not isinstance(value, dict):
        raise InvalidConfigurationError("body", value, "is not an object", "a JSON object")
    for key, setting in value.items():
        if LOGIN.search(key):
            # not repeated in the message, nor in the hub's log
            why, fix = "datasets have no keys", "ask the operators for an endpoint (datasets.s3 in site.yaml)"
            raise InvalidConfigurationError(key[:63], "…", why, fix)
        if key not in KEYS:
            raise InvalidConfigurationError(key[:63], setting, "unknown key", f"one of {', '.join(KEYS)}")
    digest = value.get("sha256")
    if digest is not None and not (isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest)):
        raise InvalidConfigurationError("sha256", digest, "is not a digest", "64 lower-case hexadecimal digits")
    for key in ("read_only", "required"):
        if not isinstance(value.get(key, False), bool):
            raise InvalidConfigurationError(key, value[key], "is not a boolean", "true or false")
    sources.check(value, allowed)
    _mount_path(name, value, {other: dataset for other, dataset in others.items() if other != name})
    if name not in others and len(others) >= MOST:
        raise InvalidConfigurationError("name", name, f"the tenant has {len(others)} datasets", "delete one")


def _mount_path(name: str, value: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]) -> None:
    path = value.get("mount_path", mount_path(name, {}))
    if not isinstance(path, str) or not MOUNT_PATH.fullmatch(path):
        fix = f"{mount_path(name, {})}, or another path below {DIRECTORY}"
        raise InvalidConfigurationError("mount_path", path, f"is not a path below {DIRECTORY}", fix)
    for other, dataset in others.items():
        used = mount_path(other, dataset)
        if f"{path}/".startswith(f"{used}/") or f"{used}/".startswith(f"{path}/"):
            raise InvalidConfigurationError("mount_path", path, f"dataset {other} is at {used}", "another path")


def mount_path(name: str, dataset: Mapping[str, Any]) -> str:
    """Where servers have the dataset."""
    return str(dataset.get("mount_path", f"{DIRECTORY}/{name}"))


def resolve(
    datasets: Mapping[str, Mapping[str, Any]], allowed: sources.Allowed
) -> tuple[list[dict[str, Any]], dict[str, Mapping[str, Any]]]:
    """What an init container is to download, and what is on NFS.

    Args:
        datasets: of the tenant, by name.
        allowed: for the tenant, at this start: what the site no longer allows is unreachable.

    Returns:
        Downloads; and `claim` and `server` of folders on NFS, by name of the dataset.
    """
    downloads, folders = [], {}
    for name, dataset in sorted(datasets.items()):
        download = _download(name, dataset)
        try:
            sources.check(dataset, allowed)
            if dataset["source"].startswith("nfs://"):
                folders[name] = sources.nfs(dataset, allowed)
                continue
            if dataset["source"].startswith("s3://"):
                download["s3"] = sources.s3(dataset, allowed)
        except InvalidConfigurationError:
            download["unreachable"] = "the site does not allow this source; an administrator of the tenant registers it"
        downloads.append(download)
    return downloads, folders


def _download(name: str, dataset: Mapping[str, Any], unreachable: str = "") -> dict[str, Any]:
    return {
        "name": name,
        "source": dataset["source"],
        "file": sources.file_name(name, dataset["source"]),
        "sha256": dataset.get("sha256"),
        "required": dataset.get("required", False),
        "unreachable": unreachable,
    }


async def mount(
    pod: Any, image: str, datasets: Mapping[str, Mapping[str, Any]], allowed: sources.Allowed, downloads: Downloads
) -> None:
    """Adds to a pod the init container that downloads datasets and reports the unreachable ones, and all mounts.

    Args:
        pod: V1Pod.
        image: with Python; the site's, as a tenant's image may have none.
        datasets: by name.
        allowed: for the tenant.
        downloads: what the site allows.
    """
    given, folders = resolve(datasets, allowed)
    failed = await nfs.unreachable(folder["server"] for folder in folders.values() if folder["server"])
    for name, folder in list(folders.items()):
        if why := failed.get(folder["server"]):
            del folders[name]
            given.append(_download(name, datasets[name], why))
    # one volume for each claim: the kubelet mounts it once
    claims = {folder["claim"]: {"claimName": folder["claim"], "readOnly": True} for folder in folders.values()}
    volumes = [{"name": claim, "persistentVolumeClaim": source} for claim, source in sorted(claims.items())]
    if given:
        pod.spec.init_containers = [*(pod.spec.init_containers or ()), _container(image, given, downloads)]
        size = NOTES_BYTES + downloads.bytes * sum(not download["unreachable"] for download in given)
        volumes.append({"name": CONTAINER, "emptyDir": {"sizeLimit": str(size)}})
    mounts = []
    for name, dataset in sorted(datasets.items()):
        read_only = dataset.get("read_only", True)
        where = {"mountPath": mount_path(name, dataset), "readOnly": read_only}
        if name in folders:
            mounts.append({**where, "name": folders[name]["claim"]})
        else:
            mounts.append({**where, "name": CONTAINER, "subPath": name})
    server = pod.spec.containers[0]
    if datasets:
        pod.spec.volumes = [*(pod.spec.volumes or ()), *volumes]
        server.volume_mounts = [*(server.volume_mounts or ()), *mounts]


def _container(image: str, given: list[dict[str, Any]], downloads: Downloads) -> dict[str, Any]:
    """The init container; keys of S3 are variables of it alone, from Secrets that the hub does not read."""
    variables = []
    for number, s3 in enumerate(dataset["s3"] for dataset in given if dataset.get("s3")):
        if s3["keys"] is not None:
            names = [f"{kind}_KEY_{number}" for kind in ("ACCESS", "SECRET")]
            # without its Secret, the dataset is unreachable, and the server starts
            variables += [
                {"name": name, "valueFrom": {"secretKeyRef": {**entry, "optional": True}}}
                for name, entry in zip(names, s3["keys"], strict=True)
            ]
            s3["keys"] = names
    values = {"datasets": given, "directory": DIRECTORY, "report": REPORT, "limits": vars(downloads)}
    return {
        "name": CONTAINER,
        "image": image,
        "command": ["python3", "-I", "-c", resources.files("strata_hub").joinpath("fetch.py").read_text()],
        "env": [{"name": VARIABLE, "value": json.dumps(values)}, *variables],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": SECURITY_CONTEXT,
        "volumeMounts": [{"name": CONTAINER, "mountPath": DIRECTORY}],
    }
