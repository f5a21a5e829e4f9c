"""Host keys that cloud-init writes to an instance's console: known before the first connection, not by it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from strata.access.openstack import connect
from strata.progress import Progress
from strata.retry import wait_until
from strata.site.context import SiteContext

if TYPE_CHECKING:
    from openstack.connection import Connection

CONSOLE_SECONDS = 60.0
"""How long cloud-init may take to write them; an image without it never does, and ssh then trusts its first answer."""
_BLOCK = re.compile(r"-----BEGIN SSH HOST KEY KEYS-----(.*?)-----END SSH HOST KEY KEYS-----", re.DOTALL)
_KEY = re.compile(r"^(?:.*?\s)?((?:ssh|ecdsa)-[\w.@-]+ [A-Za-z0-9+/]+=*)(?:\s.*)?$", re.MULTILINE)


def console_keys(console: str) -> list[str]:
    """Host keys in a console log, "type base64" each; those of the last boot that wrote any."""
    blocks = _BLOCK.findall(console.replace("\r", ""))
    return list(dict.fromkeys(_KEY.findall(blocks[-1]))) if blocks else []


def learn_host_keys(context: SiteContext, servers: Mapping[str, str], progress: Progress) -> dict[str, list[str]]:
    """Waits for the host keys of new instances on their consoles.

    Args:
        context: the site.
        servers: address to instance id.
        progress: receives status messages.

    Returns:
        Address to keys, of those that wrote any in time.
    """
    from keystoneauth1.exceptions import ClientException  # noqa: PLC0415  # loads openstack: 0.2 s
    from openstack.exceptions import SDKException  # noqa: PLC0415  # loads openstack: 0.2 s

    by_address: dict[str, list[str]] = {}
    try:
        with connect(context) as connection:

            def waiting_for() -> str | None:
                missing = {a: i for a, i in servers.items() if a not in by_address}
                by_address.update(
                    {a: keys for a, i in missing.items() if (keys := console_keys(_console(connection, i)))}
                )
                left = len(servers) - len(by_address)
                return f"host keys on the consoles of {left} instances" if left else None

            wait_until(waiting_for, CONSOLE_SECONDS, progress, pause=2)
    except (SDKException, ClientException):
        pass  # consoles are not every cloud's
    return by_address


def _console(connection: Connection, server: str) -> str:
    answer: dict[str, Any] = connection.compute.get_server_console_output(server)
    return str(answer.get("output") or "")
