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


class RoleSection(Model):
    """A section below `hosts:` that may do without a host with its role."""

    @property
    def needs_role(self) -> bool:
        """Whether a host must have the role that the section is for."""
        return True
