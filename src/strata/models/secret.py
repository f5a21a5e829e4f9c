"""Where a site's secrets come from; the secrets themselves are never in a site file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from strata.models.base import Model
from strata.models.types import DatabaseName, VariableName


class Secret(Model):
    """A secret whose source is declared."""

    name: Annotated[DatabaseName, Field(description="Name of the secret in roles and programs.")]
    source: Annotated[
        Literal["generated", "environment", "file"],
        Field(description="generated: once per site, stored encrypted. environment, file: provided by the operator."),
    ]
    variable: Annotated[
        VariableName | None,
        Field(
            description="environment: name of the variable. Default: STRATA_SECRET_ and the secret's name in capitals."
        ),
    ] = None
    path: Annotated[Path | None, Field(description="file: path of a file of mode 0600 outside the repository.")] = None

    @model_validator(mode="after")
    def _matching_source(self) -> Self:
        if self.source == "file" and self.path is None:
            raise PydanticCustomError(
                "secret_path", "is needed for source: file", {"key": "path", "fix": "path: ~/.config/strata/token"}
            )
        if self.source != "file" and self.path is not None:
            raise PydanticCustomError(
                "secret_path", "is only for source: file", {"key": "path", "fix": "source: file, or remove the line"}
            )
        if self.source != "environment" and self.variable is not None:
            raise PydanticCustomError(
                "secret_variable",
                "is only for source: environment",
                {"key": "variable", "fix": "source: environment, or remove the line"},
            )
        return self
