"""The OpenStack objects that Strata created, from the state of the cloud's Pulumi stack: ids, never names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from strata.drift_model import Drift
from strata.layers import Layer
from strata.site.context import SiteContext
from strata.stacks.events import label, urn_name
from strata.stacks.pulumi_state import project_name, read_deployment, state_file

DEFAULTS = "__defaults"
"""Among a resource's inputs: keys that the program left to the provider."""


@dataclass(frozen=True)
class Made:
    """One object.

    Args:
        type: Pulumi's type token.
        name: of the resource in the program.
        id: of the object in OpenStack.
        inputs: what the program declared.
        outputs: what the provider read at the last run.
    """

    type: str
    name: str
    id: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{label(self.type)} {self.name}"

    def declares(self, key: str) -> bool:
        """Whether the program sets an input itself, so that the provider compares it."""
        return key in self.inputs and key not in self.inputs.get(DEFAULTS, ())


@dataclass(frozen=True)
class Property:
    """One property that differs; arguments as of `Drift`."""

    name: str
    wanted: str
    found: str


@dataclass(frozen=True)
class Difference:
    """What differs of one object, and how it is repaired.

    Args:
        object: what an operator calls it.
        properties: those that differ.
        repair: repairs all of them; None where that is left to the operator: `wanted` then has the command.
    """

    object: str
    properties: tuple[Property, ...]
    repair: Callable[[], Any] | None = None

    def drift(self) -> Iterable[Drift]:
        """One entry per property."""
        for item in self.properties:
            yield Drift(layer=Layer.CLOUD, object=self.object, property=item.name, wanted=item.wanted, found=item.found)


MadeObjects = Mapping[str, Mapping[str, Made]]
"""Last part of the type ("Port") to id to object."""


def made_objects(context: SiteContext) -> MadeObjects:
    """Everything in the state of the cloud's stack; empty before its first run."""
    file = state_file(context.paths.pulumi, project_name("cloud"), context.site.name)
    try:
        resources = read_deployment(file).get("resources") or () if file.exists() else ()
    except ValueError:
        resources = ()  # cut off by an interrupted run; the next one repairs the file
    by_type: dict[str, dict[str, Made]] = {}
    for resource in resources:
        if not str(resource["type"]).startswith("openstack:") or not resource.get("id") or resource.get("delete"):
            continue
        made = Made(
            resource["type"],
            urn_name(resource["urn"]),
            str(resource["id"]),
            resource.get("inputs") or {},
            resource.get("outputs") or {},
        )
        by_type.setdefault(made.type.rpartition(":")[2], {})[made.id] = made
    return by_type
