"""A lab of its own for measuring: other networks than any that are in use, destroyed afterwards."""

from __future__ import annotations

import ipaddress
import json
import re
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from strata.bench.command import Outcome, measure
from strata.bench.model import Bench
from strata.engine.context import SiteContext
from strata.errors import UserError
from strata.models import find_site, new_site

LAYERS = ("cloud", "hosts", "cluster", "platform")
FIRST, LAST = 160, 220
"""Second octets of 10.x.0.0/16 that are tried for a network nobody has."""


def _taken() -> list[ipaddress.IPv4Network]:
    """Networks that this machine has a route or address in."""
    routes = subprocess.run(["ip", "-json", "route"], capture_output=True, text=True, check=True)
    found = []
    for route in json.loads(routes.stdout):
        if route["dst"] != "default":
            found.append(ipaddress.ip_network(route["dst"], strict=False))
    return [n for n in found if isinstance(n, ipaddress.IPv4Network)]


def free_networks() -> tuple[str, str]:
    """Two networks that nobody on this machine has, for the controller and the instances.

    Raises:
        UserError: all are taken.
    """
    taken = _taken()
    free = [
        network
        for octet in range(FIRST, LAST)
        if not any((network := ipaddress.ip_network(f"10.{octet}.0.0/16")).overlaps(t) for t in taken)
    ]
    if len(free) < 2:
        raise UserError("no free networks for a site to measure on", fix="`ip route` shows what is taken")
    return str(next(free[0].subnets(new_prefix=24))), str(next(free[1].subnets(new_prefix=22)))


def write_site(directory: Path, *, instances: int = 60) -> Path:
    """A lab like the lab, with free networks and room for more instances; returns its site.yaml."""
    name = f"bench-{secrets.token_hex(2)}"
    file = new_site(name, find_site("lab"), directory)
    control, project = free_networks()
    text = file.read_text()
    text = re.sub(r"(control_network: )\S+", rf"\g<1>{control}", text)
    text = re.sub(r"(cidr: )[\d./]+", rf"\g<1>{project}", text)
    text = re.sub(
        r"quota: \{instances: \d+, cores: \d+", f"quota: {{instances: {instances}, cores: {4 * instances}", text
    )
    text = re.sub(r"(quota: \{instances: \d+, cores: \d+, memory: )\d+", rf"\g<1>{4 * instances}", text)
    text = re.sub(
        r"(name: compute-1, vcpus: )\d+, memory: \d+ GiB, disk: \d+ GiB",
        rf"\g<1>{4 * instances}, memory: {4 * instances} GiB, disk: {40 * instances} GiB",
        text,
    )
    file.write_text(text)
    return file


def strata(file: Path, command: str, *options: str) -> Outcome:
    """Runs one command of ours on the site."""
    return measure("strata", command, str(file), *options)


@contextmanager
def bench_site(bench: Bench, *, up: str | None = None) -> Iterator[SiteContext]:
    """The site to measure on: the one that was named, else a new lab that is destroyed afterwards.

    Args:
        bench: may name a running site.
        up: bring the new lab up to this layer first; None to leave it unmade.
    """
    if bench.site_file is not None:
        yield SiteContext.load(bench.site_file)
        return
    file = write_site(bench.directory)
    try:
        for layer in LAYERS[: LAYERS.index(up) + 1] if up else ():
            bench.progress.update(f"making a lab to measure on: {layer}")
            strata(file, "up", "--layer", layer, "--no-verify")
        yield SiteContext.load(file)
    finally:
        bench.progress.update("destroying the lab")
        strata(file, "destroy", "--yes")
