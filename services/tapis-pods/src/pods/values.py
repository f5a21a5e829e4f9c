"""Kinds of values in requests, with what PostgreSQL and Kubernetes cannot hold refused."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

RESERVED = frozenset(
    {
        "admin", "agent", "auth", "healthcheck", "images", "jupyter", "metrics", "nodes", "secrets", "snapshots",
        "stacks", "stats", "templates", "traefik", "volumes",
    }
)  # fmt: skip
"""Words of Tapis' routes, now or later."""


def _storable(text: str) -> str:
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("holds a character that cannot be stored")
    return text


def _unreserved(text: str) -> str:
    if text in RESERVED:
        raise ValueError(f"{text} is reserved; choose another name")
    return text


Text = Annotated[str, Field(max_length=32_768), AfterValidator(_storable)]
Username = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9._@+-]+$")]
PodId = Annotated[
    str, StringConstraints(pattern=r"^[a-z][a-z0-9]+$", min_length=3, max_length=58), AfterValidator(_unreserved)
]
NetworkKey = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+$", min_length=3, max_length=58)]
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$", max_length=256)]
