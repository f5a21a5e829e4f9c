"""What all models of a site file share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, create_model


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


ModelT = TypeVar("ModelT", bound=Model)


def summary(model: type[BaseModel]) -> str:
    """The first line of a model's docstring."""
    return (model.__doc__ or "").strip().splitlines()[0]


def with_sections(base: type[ModelT], name: str, sections: Mapping[str, type[BaseModel]]) -> type[ModelT]:
    """A model with the keys of its base, then one for each section that a folder describes; None without it.

    Args:
        base: has the docstring, too.
        name: of the model.
        sections: key to model; its summary describes the key.
    """
    fields: dict[str, Any] = {
        key: (Annotated[section | None, Field(description=summary(section))], None) for key, section in sections.items()
    }
    return create_model(name, __base__=base, __doc__=base.__doc__, **fields)


class RoleSection(Model):
    """A section below `hosts:` that may do without a host with its role."""

    @property
    def needs_role(self) -> bool:
        """Whether a host must have the role that the section is for."""
        return True
