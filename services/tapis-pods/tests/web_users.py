"""Users of the pages: a window that is logged in, and what Traefik does with requests to the names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from strata_bench.login_issuer import LoginIssuer, Window
from strata_bench.service_processes import Service

from .conftest import DOMAIN, WEB_URL

SESSION = "__Host-strata-session"
Route = Callable[[str], tuple[str, dict[str, str]]]
LogIn = Callable[..., Window]


@pytest.fixture
def route(api: Service) -> Route:
    """What Traefik does: requests to pods' names are the API's to decide, as the middleware asks."""

    def of(url: str) -> tuple[str, dict[str, str]]:
        split = urlsplit(url)
        if split.netloc.endswith(f".{DOMAIN}"):
            target = f"{split.path or '/'}{'?' if split.query else ''}{split.query}"
            added = {"X-Forwarded-Host": split.netloc, "X-Forwarded-Method": "GET", "X-Forwarded-Uri": target}
            return f"{api.url}/v3/forward-auth", added
        return (url.replace(WEB_URL, api.url), {"Host": DOMAIN}) if split.netloc == DOMAIN else (url, {})

    return of


@pytest.fixture
def log_in(issuer: LoginIssuer, route: Route) -> Iterator[LogIn]:
    """`log_in("alice", "research")`: a browser whose user is known at the issuer; no session yet."""

    def of(name: str, *tenants: str) -> Window:
        groups = [f"/tenants/{tenant}" for tenant in tenants]
        issuer.user = {"sub": f"id-{name}", "preferred_username": name, "groups": groups}
        return Window(route)

    yield of
    issuer.user, issuer.changes = {}, {}
