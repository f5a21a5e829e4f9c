"""What all models of a site file share."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict


@dataclass(frozen=True)
class Unit:
    """Annotation of a number: what it counts.

    Args:
        name: for instance "virtual CPUs".
    """

    name: str


class Model(BaseModel):
    """Base of the site model: immutable, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
