"""Whether NFS servers respond: the kubelet waits for one that does not, whatever the dataset is worth."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Iterable

PORT = 2049
SECONDS = 3.0
"""For all servers, in parallel."""
CALL = struct.pack(">11I", 1 << 31 | 40, 1, 0, 2, 100003, 4, 0, 0, 0, 0, 0)
"""Procedure NULL of NFSv4 over TCP (RFC 5531, RFC 7530): one record of 40 bytes, without credentials."""
REPLY = struct.pack(">2I", 1, 1)
"""Number of the call, and that it is a reply."""


async def unreachable(servers: Iterable[str], port: int = PORT, seconds: float = SECONDS) -> dict[str, str]:
    """Server to the reason, of those that do not respond.

    Args:
        servers: names or addresses.
        port: TCP.
        seconds: for all of them.
    """
    names = sorted(set(servers))
    reasons = await asyncio.gather(*(_probe(name, port, seconds) for name in names))
    return {name: f"NFS server {name}: {reason}" for name, reason in zip(names, reasons, strict=True) if reason}


async def _probe(server: str, port: int, seconds: float) -> str:
    try:
        await asyncio.wait_for(_null(server, port), seconds)
    except TimeoutError:
        return f"no response in {seconds:g} s"
    except socket.gaierror:
        return "its name does not resolve"
    except OSError as error:
        # of several addresses, asyncio gives no number
        return os.strerror(error.errno) if error.errno else "no connection"
    except (ValueError, asyncio.IncompleteReadError):
        return "no response of NFS"
    return ""


async def _null(server: str, port: int) -> None:
    """A server that has hung still accepts connections; one that works responds.

    Raises:
        ValueError: the response is none of NFS.
    """
    reader, writer = await asyncio.open_connection(server, port)
    try:
        writer.write(CALL)
        await writer.drain()
        if (await reader.readexactly(12))[4:] != REPLY:
            raise ValueError(server)
    finally:
        writer.close()
