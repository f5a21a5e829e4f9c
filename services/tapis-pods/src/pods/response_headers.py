"""Headers of a user's choice that a pod gets with each request of a user who logged in."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Annotated
from urllib.parse import quote

from pydantic import AfterValidator, StringConstraints

USERNAME = "<<tapisusername>>"
REFUSED = frozenset(
    {
        "authorization", "connection", "cookie", "date", "expect", "forwarded", "host", "keep-alive", "location",
        "origin", "referer", "server", "set-cookie", "te", "trailer", "transfer-encoding", "upgrade", "via",
        "x-real-ip", "x-request-id", "x-tapis-token",
    }
)  # fmt: skip
REFUSED_PREFIXES = ("accept", "access-control-", "content-", "if-", "proxy-", "sec-", "www-", "x-forwarded-")
WITHHELD = ("Authorization", "Cookie", "X-Tapis-Token")
"""Headers of the browser that reach the pod only as the service passes them on: they may hold sessions and tokens."""


def _allowed(name: str) -> str:
    if name.lower() in REFUSED or name.lower().startswith(REFUSED_PREFIXES):
        raise ValueError(f"{name} has a meaning of its own in HTTP; choose a name such as X-User")
    return name


def _known(value: str) -> str:
    if "<<" in value.replace(USERNAME, ""):
        raise ValueError(f"{value} holds a placeholder that is none; {USERNAME} is the only one")
    return value


HeaderName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9-]*$", max_length=64), AfterValidator(_allowed)
]
HeaderValue = Annotated[
    str, StringConstraints(pattern=r"^[!-~]([ -~]*[!-~])?$", max_length=1024), AfterValidator(_known)
]


def check_names_differ(headers: dict[str, str]) -> dict[str, str]:
    """Refuses names that are one to HTTP.

    Raises:
        ValueError: two differ in upper and lower case only.
    """
    if len({name.lower() for name in headers}) < len(headers):
        raise ValueError("two headers differ in upper and lower case only; remove one")
    return headers


def filled(headers: Mapping[str, str], username: str) -> dict[str, str]:
    """The headers of one user; characters that a header cannot hold are percent-encoded."""
    encoded = quote(username, safe="@+")
    return {name: value.replace(USERNAME, encoded) for name, value in headers.items()}


def pattern(headers: Collection[str]) -> str:
    """Regular expression of Traefik: names whose values a browser may not set.

    With an underscore too, which many programs read as a hyphen (CGI, WSGI).
    """
    names = (re.escape(name).replace(r"\-", "[-_]") for name in sorted({*headers, *WITHHELD}))
    return f"(?i)^({'|'.join(names)})$"
