"""What site.yaml sets of the front page."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from strata.models.base import Model
from strata.models.types import EmailAddress, HttpsUrl


class Portal(Model):
    """The site's front page at https://<domain>/: services and their state, first steps, contact."""

    title: Annotated[
        str | None, Field(min_length=1, max_length=80, description="Heading of the page. Default: the site's name.")
    ] = None
    introduction: Annotated[str, Field(max_length=500, description="One or two sentences below the heading.")] = (
        "Notebooks, accelerators and storage for research."
    )
    contact: Annotated[
        EmailAddress | HttpsUrl | None,
        Field(description="E-mail address, or URL of a help desk, for questions of users. Default: none."),
    ] = None
    documentation: Annotated[
        HttpsUrl | None,
        Field(
            description="URL at which this repository's files are published, for instance "
            "https://git.example.org/strata/blob/main; the page then links to the guides. Default: no links."
        ),
    ] = None


SECTION = Portal
