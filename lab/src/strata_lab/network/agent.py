"""The loop: whenever neutron's objects or the instances' interfaces change, the ruleset follows."""

from __future__ import annotations

import json
import logging
import os
import time
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network
from pathlib import Path

from strata_lab.network import nft
from strata_lab.network.attachments import Attachment, attachments
from strata_lab.network.filtering import filter_table, table_name
from strata_lab.network.metadata import MetadataProxies, Upstream
from strata_lab.network.model import Port, State
from strata_lab.network.routing import Surroundings, metadata_listeners, routing_table

LOG = logging.getLogger(__name__)

FAMILIES = ("bridge", "inet")
POLL_SECONDS = 0.2
"""A look is a few calls of stat."""
AUDIT_SECONDS = 5.0
"""How often the kernel's tables are compared with what was put there."""
RETRY_SECONDS = 1.0


@dataclass(frozen=True)
class Places:
    """Where the agent reads and writes.

    Args:
        objects: file that neutron's mechanism driver writes.
        results: directory of podman's network plugins.
        secret: file with what is shared with nova's metadata API.
    """

    objects: Path = Path("/run/strata/network/objects.json")
    results: Path = Path("/var/lib/cni/results")
    secret: Path = Path("/run/strata/metadata-secret")


@dataclass
class Agent:
    """Keeps the kernel in line with neutron.

    Args:
        site: names the tables.
        control_network: of the controller.
        controller: its address.
        places: files.
        backup_store: address of the site's backup store, if it has one.
        clients: networks of the site, whose instances reach it.
    """

    site: str
    control_network: IPv4Network
    controller: str
    places: Places = field(default_factory=Places)
    backup_store: str | None = None
    clients: tuple[str, ...] = ()
    _proxies: MetadataProxies = field(init=False)
    _state: State | None = None
    _seen: tuple[object, ...] = ()
    _applied: str = ""
    _listing: str = ""
    _audited: float = 0.0

    def __post_init__(self) -> None:
        self._proxies = MetadataProxies(Upstream(self.controller, self.places.secret), self.find)

    def find(self, network_id: str, address: str) -> Port | None:
        """The port with this address, as of the last look."""
        ports = self._state.ports if self._state else ()
        return next((p for p in ports if p.network_id == network_id and address in p.fixed_ips), None)

    def tables(self, state: State, attached: list[Attachment]) -> dict[tuple[str, str], str]:
        """The ruleset by family and name of each table."""
        name = table_name(self.site)
        around = surroundings(self.controller, self.control_network)
        around = replace(around, backup_store=self.backup_store, clients=self.clients)
        return {
            ("bridge", name): filter_table(self.site, state, attached),
            ("inet", name): routing_table(self.site, state, attached, around),
        }

    def look(self) -> bool:
        """One turn; returns whether the ruleset was changed.

        Raises:
            nft.NftError: the kernel refused it.
        """
        seen = (_stamp(self.places.objects), _stamps(self.places.results))
        due = time.monotonic() - self._audited > AUDIT_SECONDS
        if seen == self._seen and not due:
            return False
        state = self._read()
        if state is None:
            return False
        attached = attachments(self.places.results, self.site)
        listeners = set(metadata_listeners(state, attached))
        self._proxies.serve(listeners)
        tables = self.tables(state, attached)
        ruleset = nft.replacement(tables)
        self._audited = time.monotonic()
        changed = ruleset != self._applied
        if not changed and due:
            changed = nft.listing(tables) != self._listing
            if changed:
                LOG.warning("the tables were modified outside Strata; they are restored")
        if changed:
            started = time.monotonic()
            nft.apply(tables)
            self._applied, self._listing = ruleset, nft.listing(tables)
            LOG.info("%d ports wired, %.0f ms", len(attached), 1000 * (time.monotonic() - started))
        # a listener whose bridge is not up yet is tried again
        self._seen = seen if self._proxies.complete == listeners else ()
        return changed

    def _read(self) -> State | None:
        """neutron's objects; the last ones where the file is gone, None before there were any."""
        try:
            self._state = State.parse(json.loads(self.places.objects.read_text()))
        except FileNotFoundError:
            pass
        except (ValueError, KeyError, TypeError) as error:
            LOG.error("%s: %s", self.places.objects, error)
        return self._state


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_ino


def _stamps(directory: Path) -> tuple[object, ...]:
    """Of every file: one that is partially written changes once more, and its directory does not."""
    try:
        return tuple(sorted((entry.name, _stamp(Path(entry.path))) for entry in os.scandir(directory)))
    except FileNotFoundError:
        return ()


def surroundings(controller: str, control_network: IPv4Network) -> Surroundings:
    """The host's routing table and name servers."""
    control_bridge, outside = None, set()
    for line in Path("/proc/net/route").read_text().splitlines()[1:]:
        interface, destination, _, _, _, _, _, mask = line.split()[:8]
        network = f"{_dotted(destination)}/{_dotted(mask)}"
        if network == "0.0.0.0/0.0.0.0":
            outside.add(interface)
        elif IPv4Network(network) == control_network:
            control_bridge = interface
    servers = [
        fields[1]
        for line in Path("/etc/resolv.conf").read_text().splitlines()
        if len(fields := line.split()) == 2 and fields[0] == "nameserver" and not fields[1].startswith("127.")
    ]
    return Surroundings(controller, control_bridge, tuple(sorted(outside)), tuple(servers))


def _dotted(hexadecimal: str) -> str:
    """An address of /proc/net/route, whose bytes are in the machine's order."""
    return ".".join(str(octet) for octet in int(hexadecimal, 16).to_bytes(4, "little"))
