"""Datasets that a tenant registers, and how the servers of its members get them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any
from urllib.parse import SplitResult, urlsplit

from strata_hub.configuration import GROUP_NAME, InvalidConfigurationError
from strata_hub.store import Store

KIND = "datasets"
"""Of the entries in the store."""
DIRECTORY = "/datasets"
"""All mount paths are below it: elsewhere, a dataset could replace the home or programs, and be code that runs as the
user."""
MOUNT_PATH = re.compile(rf"{DIRECTORY}(/[A-Za-z0-9][A-Za-z0-9._-]{{0,62}}){{1,4}}")
FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
MOST = 16
"""Datasets of a tenant: their reports are to fit into a container's message."""
LONGEST_SOURCE = 1000
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


def validate(name: str, value: Any, others: Mapping[str, Mapping[str, Any]]) -> None:
    """Accepts a dataset.

    Args:
        name: of the dataset.
        value: as it came, JSON.
        others: the tenant's datasets.

    Raises:
        InvalidConfigurationError: a key or value is not allowed.
    """
    if not GROUP_NAME.fullmatch(name):
        raise InvalidConfigurationError("name", name, "is no name of a dataset", "lower-case letters, digits and -")
    if not isinstance(value, dict):
        raise InvalidConfigurationError("body", value, "is no object", "a JSON object")
    known = ("source", "sha256", "mount_path", "read_only", "required")
    for key, setting in value.items():
        if key not in known:
            raise InvalidConfigurationError(key[:63], setting, "unknown key", f"one of {', '.join(known)}")
    _source(value.get("source"))
    digest = value.get("sha256")
    if digest is not None and not (isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest)):
        raise InvalidConfigurationError("sha256", digest, "is no digest", "64 lower-case hexadecimal digits")
    for key in ("read_only", "required"):
        if not isinstance(value.get(key, False), bool):
            raise InvalidConfigurationError(key, value[key], "is no boolean", "true or false")
    _mount_path(name, value, {other: one for other, one in others.items() if other != name})
    if name not in others and len(others) >= MOST:
        raise InvalidConfigurationError("name", name, f"the tenant has {len(others)} datasets", "delete one")


def _source(value: Any) -> None:
    example = "https://HOST/PATH"
    if not isinstance(value, str) or len(value) > LONGEST_SOURCE or not re.fullmatch(r"[!-~]+", value):
        fix = f"{example}, at most {LONGEST_SOURCE} characters"
        raise InvalidConfigurationError("source", value, "is no URL", fix)
    try:
        url = urlsplit(value)
        host, _ = url.hostname, url.port
    except ValueError:
        url, host = SplitResult("", "", "", "", ""), None
    if url.scheme != "https" or not host:
        raise InvalidConfigurationError("source", value, "is no HTTPS URL", example)
    if "@" in url.netloc:
        # not repeated in the message
        raise InvalidConfigurationError("source", "…", "has a user or a password", "a source without a login")
    if url.fragment:
        raise InvalidConfigurationError("source", value, "has a fragment", f"without #{url.fragment}")


def _mount_path(name: str, value: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]) -> None:
    path = value.get("mount_path", mount_path(name, {}))
    if not isinstance(path, str) or not MOUNT_PATH.fullmatch(path):
        fix = f"{mount_path(name, {})}, or another path below {DIRECTORY}"
        raise InvalidConfigurationError("mount_path", path, f"is no path below {DIRECTORY}", fix)
    for other, one in others.items():
        used = mount_path(other, one)
        if f"{path}/".startswith(f"{used}/") or f"{used}/".startswith(f"{path}/"):
            raise InvalidConfigurationError("mount_path", path, f"dataset {other} is at {used}", "another path")


def mount_path(name: str, dataset: Mapping[str, Any]) -> str:
    """Where servers have the dataset."""
    return str(dataset.get("mount_path", f"{DIRECTORY}/{name}"))


def file_name(name: str, source: str) -> str:
    """Of the file: the last part of the URL's path, else the dataset's name."""
    last = urlsplit(source).path.rpartition("/")[2]
    return last if FILE.fullmatch(last) else name


def mount(pod: Any, image: str, datasets: Mapping[str, Mapping[str, Any]], downloads: Downloads) -> None:
    """Adds the init container that downloads the datasets, and their mounts, to a pod.

    Args:
        pod: V1Pod.
        image: with Python; the site's, as a tenant's image may have none.
        datasets: valid ones by name.
        downloads: what the site allows.
    """
    if not datasets:
        return
    given = {
        "datasets": [
            {
                "name": name,
                "source": one["source"],
                "file": file_name(name, one["source"]),
                "sha256": one.get("sha256"),
                "required": one.get("required", False),
            }
            for name, one in sorted(datasets.items())
        ],
        "directory": DIRECTORY,
        "report": REPORT,
        "limits": vars(downloads),
    }
    program = resources.files("strata_hub").joinpath("fetch.py").read_text()
    container = {
        "name": CONTAINER,
        "image": image,
        "command": ["python3", "-I", "-c", program],
        "env": [{"name": VARIABLE, "value": json.dumps(given)}],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": SECURITY_CONTEXT,
        "volumeMounts": [{"name": CONTAINER, "mountPath": DIRECTORY}],
    }
    size = downloads.bytes * len(datasets)
    pod.spec.init_containers = [*(pod.spec.init_containers or ()), container]
    pod.spec.volumes = [*(pod.spec.volumes or ()), {"name": CONTAINER, "emptyDir": {"sizeLimit": str(size)}}]
    server = pod.spec.containers[0]
    server.volume_mounts = [
        *(server.volume_mounts or ()),
        *(
            {
                "name": CONTAINER,
                "mountPath": mount_path(name, one),
                "subPath": name,
                "readOnly": one.get("read_only", True),
            }
            for name, one in sorted(datasets.items())
        ),
    ]
