"""Datasets of tenants in tests: how they are registered, and their init container run as a process."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .running_hub import Hub

GOOD = b"length,width\n5.1,3.5\n"
SHA256 = hashlib.sha256(GOOD).hexdigest()
SOURCE = "https://data.example.org/iris.csv"


def register(hub: Hub, name: str, **dataset: Any) -> None:
    """Of the tenant research."""
    response = hub.put("ada", f"research/datasets/{name}", dataset)
    assert (response.status_code, response.json()) == (200, dataset), response.text


def init(
    pod: dict[str, Any],
    directory: Path,
    authority: str,
    *,
    secrets: Mapping[str, str] | None = None,
    endpoint: str = "",
    **limits: int,
) -> tuple[int, str, Path]:
    """Runs the init container of a pod, below `directory`; returns exit status, report and the folder of datasets.

    Args:
        pod: with the container.
        directory: exists.
        authority: PEM of the CA that signed the sources' certificate.
        secrets: entries of the Secret that the container's variables name.
        endpoint: in place of all S3 endpoints.
        limits: in place of the site's.
    """
    (container,) = pod["spec"]["initContainers"]
    variable, *keys = container["env"]
    given = json.loads(variable["value"])
    assert (given["directory"], given["report"]) == ("/datasets", "/dev/termination-log")
    datasets, report = directory / "datasets", directory / "report"
    datasets.mkdir(exist_ok=True)
    given |= {"directory": str(datasets), "report": str(report)}
    given["limits"] |= {"authorities": authority, **limits}
    for dataset in given["datasets"]:
        if endpoint and "s3" in dataset:
            dataset["s3"]["endpoint"] = endpoint
    references = {variable["name"]: variable["valueFrom"]["secretKeyRef"]["key"] for variable in keys}
    credentials = {name: (secrets or {})[key] for name, key in references.items() if key in (secrets or {})}
    environment = {variable["name"]: json.dumps(given), **credentials}
    command = [sys.executable, *container["command"][1:]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert not done.stderr, done.stderr
    return done.returncode, report.read_text(), datasets


def files(folder: Path) -> dict[str, bytes]:
    """Relative path to content of all files below a folder."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
