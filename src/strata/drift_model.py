"""What was found of a site that is not in the desired state."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from strata.layers import Layer

MISSING = "missing"
"""What is found where an object or a property is gone."""
ABSENT, PRESENT = "absent", "present"
"""Of an object or a property that is there or not, as a whole."""


class Drift(BaseModel):
    """One property that is not as the site wants it.

    Args:
        layer: whose `up` repairs it.
        object: what an operator calls it, for instance "flavor gpu.v100.1" or "services-1: /etc/haproxy/haproxy.cfg".
        property: of the object, in the words of its API; "state" where the object as a whole is meant.
        wanted: what the site file and the layers above it lead to; secrets are never shown.
        found: what is there.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    layer: Layer
    object: str
    property: str
    wanted: str
    found: str


class DriftReport(BaseModel):
    """All drift of a site.

    Args:
        drift: in the order of the layers.
        unreachable: per layer that could not be asked, the reason.
        seconds: how long the search took.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    drift: tuple[Drift, ...] = ()
    unreachable: dict[Layer, str] = Field(default_factory=dict)
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        """Whether every layer was checked and nothing has drifted."""
        return not self.drift and not self.unreachable


class OrphanedResource(BaseModel):
    """Something that an interrupted run left behind.

    Args:
        layer: where it is.
        object: what it is.
        why: which record does not have it.
        fix: what removes it.
    """

    model_config = ConfigDict(frozen=True)
    layer: Layer
    object: str
    why: str
    fix: str
