"""The exporter of a lab's simulated cards: the manifests of lab/accelerators with what depends on the site."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from strata.models.accelerator_catalogue import Accelerator
from strata.models.cluster import Cluster
from strata.site.paths import REPOSITORY

FOLDER = REPOSITORY / "lab" / "accelerators"


def exporter(
    cluster: Cluster, cards: Iterable[Accelerator], image: str, priority: str, folder: Path = FOLDER
) -> list[dict[str, Any]]:
    """Manifests.

    Args:
        cluster: marks its GPU nodes.
        cards: the kinds that the site can name.
        image: with Python.
        priority: class of its pods.
        folder: of the manifests.
    """
    manifests: list[dict[str, Any]] = yaml.safe_load((folder / "manifests.yaml").read_text())
    script = (folder / "exporter.py").read_text()
    settings, daemon_set, _ = manifests
    settings["data"] = {"exporter.py": script}
    template = daemon_set["spec"]["template"]
    template["metadata"]["annotations"] = {"checksum/exporter": hashlib.sha256(script.encode()).hexdigest()}
    template["spec"] |= {
        "priorityClassName": priority,
        "nodeSelector": dict(cluster.gpu_nodes.labels),
        "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
    }
    (container,) = template["spec"]["containers"]
    container["image"] = image
    kinds = {card.pci_id: {"name": card.description, "memory": card.memory.bytes} for card in cards}
    container["env"].append({"name": "KINDS", "value": json.dumps(kinds, sort_keys=True)})
    return manifests
