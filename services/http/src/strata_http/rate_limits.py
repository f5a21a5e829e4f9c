"""Limits on how often a caller may use a route; beyond them, 429 with Retry-After."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request
from limits import RateLimitItem, parse
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import FixedWindowRateLimiter

from strata_http.addresses import client_address
from strata_http.bearer import require_token
from strata_http.tokens import Caller


class RateLimits:
    """Counters of one process: with several replicas, each counts what it answers.

    Args:
        calls: of one caller to one route that needs a token, "3000/minute".
    """

    def __init__(self, calls: str) -> None:
        self.calls = parse(calls)
        self._windows = FixedWindowRateLimiter(MemoryStorage())

    async def count(self, limit: RateLimitItem, *key: str) -> None:
        """Counts one request.

        Args:
            limit: the requests of a window, which begins with the first of them.
            key: who asks, and for what.

        Raises:
            HTTPException: 429; Retry-After is the rest of the window in seconds.
        """
        if not await self._windows.hit(limit, *key):
            window = await self._windows.get_window_stats(limit, *key)
            seconds = max(1, math.ceil(window.reset_time - time.time()))
            detail = f"more than {limit}: try again in {seconds} s"
            raise HTTPException(429, detail, headers={"Retry-After": str(seconds)})


async def limit_caller(request: Request, caller: Annotated[Caller, Depends(require_token)]) -> None:
    """Dependency of every route behind a token: `rate_limit` of the settings for each caller and route.

    Raises:
        HTTPException: 429 beyond the limit.
    """
    limits: RateLimits = request.app.state.rate_limits
    await limits.count(limits.calls, "caller", caller.subject, route_of(request))


def limit_address(limit: str) -> Callable[[Request], Awaitable[None]]:
    """Dependency of a route that needs no token, such as a login.

    Args:
        limit: requests of one client address to the route, "20/minute"; of IPv6, of its /64, which one client may use.

    Returns:
        A function that raises HTTPException, 429 beyond the limit.
    """
    parsed = parse(limit)

    async def count(request: Request) -> None:
        limits: RateLimits = request.app.state.rate_limits
        await limits.count(parsed, "address", _network(client_address(request)), route_of(request))

    return count


async def limit_name(request: Request, limit: str, name: str) -> None:
    """Limits requests about one name from whatever addresses, such as logins of one user.

    Raises:
        HTTPException: 429 beyond the limit.
    """
    limits: RateLimits = request.app.state.rate_limits
    await limits.count(parse(limit), "name", name, route_of(request))


def install(app: FastAPI, calls: str, trusted_proxies: int) -> None:
    """Gives the application its counters."""
    app.state.rate_limits = RateLimits(calls)
    app.state.trusted_proxies = trusted_proxies


def _network(address: str) -> str:
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    return str(ip_network((parsed, 64), strict=False)) if isinstance(parsed, IPv6Address) else address


def route_of(request: Request) -> str:
    """Method and path of its route, as limits count them."""
    return f"{request.method} {request.scope['route'].path}"
