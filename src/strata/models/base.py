"""What all models of a site file share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import BaseModel, ConfigDict


@dataclass(frozen=True)
class Unit:
    """Annotation of a number: what it counts.

    Args:
        name: for instance "virtual CPUs".
    """

    name: str


@dataclass(frozen=True)
class UsedBy:
    """Annotation of a key that others consume than its section says.

    Args:
        consumers: roles, programs or charts.
    """

    consumers: tuple[str, ...]


class Model(BaseModel):
    """Base of the site model: immutable, unknown keys refused.

    `layer` and `consumers` say, for `strata explain`, who reads the section.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    layer: ClassVar[str] = "site"
    consumers: ClassVar[tuple[str, ...]] = ()
