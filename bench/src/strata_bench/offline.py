"""What needs no machine: reading a site, planning it, and the inventory."""

from __future__ import annotations

import os
from collections.abc import Iterator

from strata.site.paths import REPOSITORY
from strata_bench.command import measure
from strata_bench.large_site import large_site, pretend_up
from strata_bench.model import Bench, Measure

SIZES = (10, 100, 1000, 5000)
"""Nodes of a site."""
COMMANDS = {
    "validate": ("strata", "validate", "{file}"),
    "plan": ("strata", "plan", "{file}", "--offline", "--json"),
    # as Ansible itself holds it: without --export each host is printed with all its groups' variables
    "inventory": ("ansible-inventory", "-i", "{file}", "--list", "--export"),
    "report": ("strata", "report", "{file}", "--offline", "-o", "/dev/null"),
}


def offline(name: str, bench: Bench) -> Iterator[Measure]:
    """Time and memory of one command for each size of site.

    Args:
        name: key of COMMANDS.
        bench: where and how often.
    """
    state = bench.directory / "state"
    environment = {"STRATA_STATE_DIR": str(state), "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg")}
    os.environ["STRATA_STATE_DIR"] = str(state)
    for size in SIZES:
        folder = bench.directory / name
        file = large_site(size, folder)
        if name == "inventory":
            pretend_up(file, size)
        outcomes = []
        for run in range(bench.runs):
            bench.progress.update(f"{name}: {size} nodes, run {run + 1} of {bench.runs}")
            command = [word.format(file=file) for word in COMMANDS[name]]
            if name == "report":
                command[-1] = str(folder / f"{size}.html")
            outcomes.append(measure(*command, environment=environment))
        yield Measure(
            benchmark=name, what=f"{size} nodes", unit="s", samples=tuple(round(o.seconds, 3) for o in outcomes)
        )
        yield Measure(
            benchmark=name,
            what=f"{size} nodes, processor time",
            unit="s",
            samples=tuple(round(o.processor_seconds, 3) for o in outcomes),
        )
        yield Measure(
            benchmark=name,
            what=f"{size} nodes, peak memory",
            unit="MiB",
            samples=tuple(round(o.peak_mib, 1) for o in outcomes),
        )
