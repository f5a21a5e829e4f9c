"""Helm's records of releases, which it keeps as Secrets: one request for all takes less than a helm for each.

The format is that of Helm 3's default storage driver (https://helm.sh/docs/topics/advanced/#storage-backends).
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml


def listing(name: str = "", namespace: str = "") -> tuple[str, ...]:
    """Arguments of kubectl for the Secrets with the last revision of a release, or of every release of the cluster."""
    selector = "owner=helm,status!=superseded" + (f",name={name}" if name else "")
    where = ("--namespace", namespace) if namespace else ("--all-namespaces",)
    return ("get", "secrets", *where, f"--selector={selector}", "--output=json")


@dataclass(frozen=True)
class StoredRelease:
    """The last revision of a release.

    Args:
        name: of the release.
        namespace: that it is in.
        revision: its number.
        status: `deployed`, `failed`, `pending-install`, …
        chart: name of the chart.
        version: of the chart.
        app_version: of the chart.
        values: that it was given.
        manifest: its objects, YAML.
    """

    name: str
    namespace: str
    revision: int
    status: str
    chart: str
    version: str
    app_version: str
    values: Mapping[str, Any] = field(repr=False)
    manifest: str = field(repr=False)

    def objects(self) -> list[dict[str, Any]]:
        """Its objects; those in the release's own namespace may not name it."""
        return [item for item in yaml.load_all(self.manifest, yaml.CSafeLoader) if item]  # as safe_load_all, in C


def stored_releases(secrets: str) -> dict[tuple[str, str], StoredRelease]:
    """The releases by namespace and name.

    Args:
        secrets: what kubectl prints for `listing()`.
    """
    releases: dict[tuple[str, str], StoredRelease] = {}
    for release in _decoded(secrets):
        key = (release.namespace, release.name)
        if key not in releases or releases[key].revision < release.revision:
            releases[key] = release
    return releases


def _decoded(secrets: str) -> Iterator[StoredRelease]:
    for secret in json.loads(secrets)["items"]:
        # Kubernetes' base64, then Helm's
        packed = base64.b64decode(base64.b64decode(secret["data"]["release"]))
        release = json.loads(gzip.decompress(packed))
        chart = release["chart"]["metadata"]
        yield StoredRelease(
            release["name"],
            secret["metadata"]["namespace"],
            release["version"],
            release["info"]["status"],
            chart["name"],
            chart["version"],
            chart.get("appVersion") or "",
            release.get("config") or {},
            release.get("manifest") or "",
        )
