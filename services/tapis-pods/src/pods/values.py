"""Kinds of values in requests, with what PostgreSQL and Kubernetes cannot hold refused."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from strata_http.values import Storable

RESERVED = frozenset(
    {
        "admin", "agent", "auth", "healthcheck", "images", "jupyter", "metrics", "nodes", "secrets", "snapshots",
        "stacks", "stats", "templates", "traefik", "volumes",
    }
)  # fmt: skip
"""Words of Tapis' routes, now or later."""


def _unreserved(text: str) -> str:
    if text in RESERVED:
        raise ValueError(f"{text} is reserved; choose another name")
    return text


def _not_tags(text: str) -> str:
    if text == "tags":
        raise ValueError("tags is reserved; choose another name")
    return text


Text = Annotated[Storable, Field(max_length=32_768)]
Username = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9._@+-]+$")]
PodId = Annotated[
    str, StringConstraints(pattern=r"^[a-z][a-z0-9]+$", min_length=3, max_length=58), AfterValidator(_unreserved)
]
TemplateId = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z0-9_-]*[a-z0-9]$", min_length=3, max_length=64),
    AfterValidator(_not_tags),
]
TagName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$", max_length=128)]


def _ascii(text: str) -> str:
    if not text.isascii():
        raise ValueError("must be ASCII")
    return text


Description = Annotated[Text, Field(max_length=254), AfterValidator(_ascii)]
VolumeId = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]+$", min_length=3, max_length=58)]
NetworkKey = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+$", min_length=3, max_length=58)]
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$", max_length=256)]
