"""Priority classes of the platform, which helm/cluster-base makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from strata.catalogue.need import Need
from strata.catalogue.service import ServiceContext

Level = Literal["platform", "interactive", "batch"]


@dataclass(frozen=True)
class Priority(Need[str]):
    """The priority class of pods.

    Args:
        level: platform: services, which tenants' pods cannot have; interactive: what a user waits for, preempts batch;
            batch: jobs, which never preempt.
    """

    level: Level

    def provide(self, context: ServiceContext[Any]) -> str:  # noqa: ARG002  # the same at every site
        """Its name, for `priorityClassName`."""
        return self.level
