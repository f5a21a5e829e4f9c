"""The section `hosts.example_role` of site.yaml."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from strata.models.base import Model


class ExampleRole(Model):
    """Greetings over HTTP."""

    greeting: Annotated[
        str, Field(min_length=1, max_length=80, description="Beginning of the text; the site's name follows.")
    ] = "Welcome to"


SECTION = ExampleRole
