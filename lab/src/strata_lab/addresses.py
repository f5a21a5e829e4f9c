"""Networks of this machine that a site cannot have, because they are in use."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_network
from pathlib import Path

from strata.access.podman import SITE_LABEL, podman
from strata.errors import UserError
from strata.models.site import Site
from strata.provider import provider_of
from strata.site.outputs import write_private
from strata.site.paths import state_directory
from strata.site_file.inventories import find_site, site_names
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError
from strata.site_file.renumber import IPNetwork

ROUTES = (Path("/proc/net/route"), Path("/proc/net/ipv6_route"))
RESOLVER = Path("/etc/resolv.conf")
ADDRESSES = ("ip", "-json", "address", "show")


@dataclass(frozen=True)
class InUse:
    """A network and who has it.

    Args:
        network: its addresses.
        by: for people, for instance `the route over eth0`.
        site: the site whose podman network or file it is; None for others.
    """

    network: IPNetwork
    by: str
    site: str | None = None


def networks_in_use() -> list[InUse]:
    """Networks of sites with a file, of podman, of the host's routes, and its name servers."""
    return [*_of_files(), *_of_this_machine()]


def remember_file(file: Path) -> None:
    """Keeps the path of a site file outside of inventories/, so that its networks stay its own before it is up.

    Args:
        file: a site.yaml; forgotten when it is no longer there.
    """
    known = _known_files()
    if file.absolute() not in known:
        write_private(_files(), json.dumps([*map(str, known), str(file.absolute())], indent=1) + "\n")


def _files() -> Path:
    return state_directory() / "sites.json"


def _known_files() -> list[Path]:
    try:
        kept = json.loads(_files().read_text())
    except (FileNotFoundError, ValueError):
        return []
    return [Path(file) for file in kept if Path(file).is_file()]


def check_networks(site: Site) -> None:
    """Refuses networks that are in use on this machine, before anything of the site is created.

    Raises:
        UserError: names the key, its network and who has it.
    """
    networks = provider_of(site).local_networks()
    others = [other for other in _of_this_machine() if other.site != site.name] if networks else []
    for key, network in networks.items():
        for other in others:
            if _overlap(network, other.network):
                raise UserError(
                    f"{key}: {network} is in use on this machine: {other.network} is {other.by}",
                    fix=f"choose another {key}; `strata new NAME --like {site.name}` chooses free ones by itself",
                )


def _overlap(one: IPNetwork, other: IPNetwork) -> bool:
    return one.version == other.version and one.overlaps(other)


def _of_files() -> Iterator[InUse]:
    for file in dict.fromkeys([*(find_site(name).absolute() for name in site_names()), *_known_files()]):
        try:
            site = load_site(file)
        except SiteError:
            continue  # its networks are unknown; `strata validate` shows why
        for network in provider_of(site).local_networks().values():
            yield InUse(network, f"a network of site {site.name}", site.name)


def _of_this_machine() -> list[InUse]:
    in_use, bridges = [], set[str]()
    if shutil.which("podman") is not None:
        for network in json.loads(podman("network", "ls", "--format", "json") or "[]"):
            owner = (network.get("labels") or {}).get(SITE_LABEL)
            bridges.add(str(network.get("network_interface")))
            who = f"podman's network {network['name']}" + (f" of site {owner}" if owner else "")
            in_use += [InUse(ip_network(s["subnet"], strict=False), who, owner) for s in network.get("subnets") or ()]
    # podman knows routes over its bridges better
    in_use += [InUse(net, f"a route over {device}") for net, device in _routes() if device not in bridges]
    in_use += [InUse(net, f"an address of this machine on {device}") for net, device in _addresses()]
    return in_use + [InUse(net, "a name server of this machine") for net in _name_servers()]


def _addresses() -> Iterator[tuple[IPNetwork, str]]:
    """Addresses without a network; those with one have a route too."""
    if shutil.which("ip") is None:
        return
    said = subprocess.run(ADDRESSES, capture_output=True, text=True, check=False).stdout
    for device in json.loads(said or "[]"):
        for address in device.get("addr_info", ()):
            network = ip_network(f"{address['local']}/{address['prefixlen']}", strict=False)
            if network.num_addresses == 1 and not network.is_loopback:
                yield network, device["ifname"]


def _routes() -> Iterator[tuple[IPNetwork, str]]:
    """Routes of the main table without the default ones and link-local ones."""
    for line in ROUTES[0].read_text().splitlines()[1:] if ROUTES[0].exists() else ():
        fields = line.split()
        address, mask = (IPv4Address(struct.pack("=I", int(fields[i], 16))) for i in (1, 7))
        if int(mask):
            yield ip_network(f"{address}/{mask}", strict=False), fields[0]
    for line in ROUTES[1].read_text().splitlines() if ROUTES[1].exists() else ():
        fields = line.split()
        network = ip_network((int(IPv6Address(bytes.fromhex(fields[0]))), int(fields[1], 16)), strict=False)
        if network.prefixlen and network.is_private and not network.is_link_local and fields[9] != "lo":
            yield network, fields[9]


def _name_servers() -> Iterator[IPNetwork]:
    for line in RESOLVER.read_text().splitlines() if RESOLVER.exists() else ():
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver":
            network = ip_network(words[1].partition("%")[0])
            if not network.is_loopback:
                yield network
