"""Accelerators of the cluster's GPU nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from strata.catalogue.need import Need
from strata.catalogue.service import ServiceContext
from strata.models.finding import Finding
from strata.models.gpu_nodes import counted_as, gpu_nodes, largest_request, node_labels
from strata.models.key_path import INSTANCES, MACHINES, KeyPath
from strata.models.site import Site


@dataclass(frozen=True)
class AcceleratorAccess:
    """What a pod's specification needs.

    Args:
        resource: the extended resource, for `resources.limits`.
        count: of accelerators per pod.
        node_selector: labels of the nodes that have them.
        tolerations: of the taints of these nodes.
        counted_as: what a reservation requests beside the resource, to count the kind; empty: nothing.
    """

    resource: str
    count: int
    node_selector: Mapping[str, str]
    tolerations: tuple[Mapping[str, str], ...]
    counted_as: str = ""


@dataclass(frozen=True)
class Accelerators(Need[AcceleratorAccess]):
    """Accelerators for each pod of a service, all of one kind.

    Args:
        count: per pod.
        kind: as in the site file (`v100`); None: any GPU.
    """

    count: int = 1
    kind: str | None = None

    def _most(self, site: Site) -> dict[str, int]:
        """Kinds that fit, each with the most that a pod can request on one node."""
        most: dict[str, int] = {}
        for host, held in gpu_nodes(site).items():
            for kind in held:
                if kind == self.kind or (self.kind is None and site.accelerators[kind].category == "gpu"):
                    most[kind] = max(largest_request(site, host, kind), most.get(kind, 0))
        return most

    def findings(self, site: Site, key: KeyPath) -> Iterator[Finding]:
        """A node has so many."""
        most = max(self._most(site).values(), default=0)
        if most < self.count:
            name = self.kind or "GPU"
            why = f"needs {self.count} × {name} on one node; the cluster's GPU nodes have {most} at most"
            fix = f"a host with the role gpu_node and {self.count} × {name}"
            yield Finding(key, why, fix, (INSTANCES, MACHINES))

    def provide(self, context: ServiceContext[Any]) -> AcceleratorAccess:
        """Resource, count, node selector and tolerations."""
        site = context.site
        kinds = sorted(kind for kind, most in self._most(site).items() if most >= self.count)
        if not kinds or site.cluster is None:
            raise LookupError(f"site {site.name} has no {self.kind or 'GPU'}; validation refuses that")
        # GPUs of a vendor share one resource: the label distinguishes the kinds
        labels = node_labels(site, {self.kind: self.count} if self.kind else {})
        tolerations = tuple(toleration(taint) for taint in site.cluster.gpu_nodes.taints)
        counted = counted_as(site, self.kind) if self.kind else ""
        return AcceleratorAccess(site.accelerators[kinds[0]].resource, self.count, labels, tolerations, counted)


def toleration(taint: str) -> dict[str, str]:
    """What tolerates a taint.

    Args:
        taint: key=value:effect, or key:effect.
    """
    marked, _, effect = taint.rpartition(":")
    key, separator, value = marked.partition("=")
    if not separator:
        return {"key": key, "operator": "Exists", "effect": effect}
    return {"key": key, "operator": "Equal", "value": value, "effect": effect}
