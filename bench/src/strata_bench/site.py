"""A lab of its own for measuring: other networks than any that are in use, destroyed afterwards."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from strata.site.context import SiteContext
from strata_bench.command import Outcome, measure
from strata_bench.model import Bench

LAYERS = ("cloud", "hosts", "cluster", "platform")


def write_site(directory: Path, *, instances: int = 60) -> Path:
    """A lab like the lab, with networks that `strata new` finds free and room for more instances; its site.yaml."""
    name = f"bench-{secrets.token_hex(2)}"
    measure("strata", "new", name, "--like", "lab", "--directory", str(directory))
    file = directory / name / "site.yaml"
    text = file.read_text()
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
