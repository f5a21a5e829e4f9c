"""The address of the client, which a proxy in front of the service reports."""

from __future__ import annotations

from ipaddress import ip_address

from starlette.requests import HTTPConnection


def client_address(connection: HTTPConnection) -> str:
    """The client's IP address, "unknown" without one.

    Each proxy appends the address that it saw to X-Forwarded-For. With one proxy in front, only the last entry is the
    proxy's word: what comes before it may have been sent by the client.
    """
    proxies: int = connection.app.state.trusted_proxies
    if proxies:
        entries = ",".join(connection.headers.getlist("x-forwarded-for")).split(",")
        address = entries[-proxies].strip() if len(entries) >= proxies else ""
    else:
        address = connection.client.host if connection.client else ""
    try:
        return str(ip_address(address))
    except ValueError:
        return "unknown"
