"""TCP ports of this machine that a site needs and another program uses."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from strata.errors import UserError
from strata.models.site import Site
from strata_lab.network.metadata import PROXY_PORT

EVERYWHERE = frozenset({"*", "0.0.0.0"})  # noqa: S104  # as ss writes it
AGENT = b"strata_lab.network"
_LISTENING = re.compile(r"^\S+\s+\d+\s+\d+\s+(\S+):(\d+)\s+\S+\s*(.*)$")
_PROCESS = re.compile(r'"([^"]*)",pid=(\d+)')


@dataclass(frozen=True)
class Listener:
    """Who listens on a port.

    Args:
        address: where, `*` or `0.0.0.0` for all addresses.
        process: its name; empty if the kernel does not show it.
        pid: its number; 0 if the kernel does not tell.
    """

    address: str
    process: str
    pid: int

    def __str__(self) -> str:
        return f"{self.process} (process {self.pid})" if self.pid else "a process that cannot be seen from here"


def listeners(port: int) -> list[Listener]:
    """Who listens on a TCP port of this machine, on whichever address."""
    command = ["ss", "--no-header", "--listening", "--tcp", "--numeric", "--processes", f"sport = :{port}"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return []  # a machine that has no lab yet; scripts/lab installs it
    return list(parse(said))


def parse(text: str) -> Iterator[Listener]:
    """Listeners from what `ss` printed."""
    for line in text.splitlines():
        if match := _LISTENING.match(line):
            process = _PROCESS.search(match[3])
            yield Listener(match[1].partition("%")[0], process[1] if process else "", int(process[2]) if process else 0)


def check_ports(site: Site) -> None:
    """Refuses a port that another program uses, where the site's instances are to find their metadata.

    Raises:
        UserError: names the network, its port and who has it.
    """
    if site.cloud is None:
        return
    others = [listener for listener in listeners(PROXY_PORT) if not _is_agent(listener.pid)]
    for network in site.cloud.networks:
        for other in others:
            if other.address in EVERYWHERE or other.address == str(network.gateway):
                end = f"`kill {other.pid}`" if other.pid else f"`ss -tlnp 'sport = :{PROXY_PORT}'` shows more"
                raise UserError(
                    f"cloud.networks.{network.name}: port {PROXY_PORT} of its gateway {network.gateway}, where "
                    f"instances find their metadata, is taken on this machine by {other}",
                    fix=f"end it ({end}) or have it listen on another port; then run the same command again",
                )


def _is_agent(pid: int) -> bool:
    """Whether a process is a lab's network agent, which is who should listen there."""
    try:
        return AGENT in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
