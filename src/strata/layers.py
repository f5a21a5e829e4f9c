"""The layers of a site, and the steps that bring one up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from strata.progress import Progress
from strata.site.paths import REPOSITORY


class Layer(StrEnum):
    """What an operator may take alone with `--layer`, top of the stack last."""

    CLOUD = "cloud"
    HOSTS = "hosts"
    CLUSTER = "cluster"
    PLATFORM = "platform"


@dataclass(frozen=True)
class StepResult:
    """What a step did.

    Args:
        changed: how many things it created, changed or removed.
        detail: one line for the summary.
    """

    changed: int = 0
    detail: str = ""


@dataclass(frozen=True)
class Step:
    """One piece of work.

    Args:
        name: short, unique; shown to the operator.
        layer: the layer it belongs to.
        run: does the work; reports to its Progress.
        after: names of steps that must have succeeded before.
    """

    name: str
    layer: Layer
    run: Callable[[Progress], StepResult]
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Playbook:
    """An Ansible playbook.

    Args:
        name: of its log and its record; the file is called alike.
        layer: whose `up` runs it.
        group: the hosts it works on.
        directory: of the file.
        before_cloud: it works on the provider's own hosts, before there are instances.
        pulls_images: its hosts pull the site's images.
        sources: what leads to its tasks and variables, below the repository's root.
    """

    name: str
    layer: Layer
    group: str
    directory: Path = REPOSITORY / "ansible" / "playbooks"
    before_cloud: bool = False
    pulls_images: bool = False
    sources: tuple[str, ...] = ("ansible", "src/strata/inventory")

    @property
    def file(self) -> Path:
        """The playbook itself."""
        return self.directory / f"{self.name}.yml"


HOSTS = Playbook("hosts", Layer.HOSTS, "base")
CLUSTER = Playbook("cluster", Layer.CLUSTER, "kubernetes_common", pulls_images=True)
NODES_GROUP = "nodes"
"""Inventory group of the cluster's nodes, whatever makes them nodes."""
NODES = Playbook("nodes", Layer.CLUSTER, NODES_GROUP)
"""What Strata's roles add to nodes that another installer made."""
KUBESPRAY = Playbook("kubespray", Layer.CLUSTER, NODES_GROUP)
"""The playbooks of Kubespray: `strata.installers.kubespray` finds the file, and records what it left on the nodes."""
