"""How long users wait for their servers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

from strata.site.context import SiteContext
from strata_bench.model import Bench, Benchmark, Measure
from strata_bench.site import bench_site
from strata_services.jupyterhub import simulated
from strata_services.jupyterhub.user import User, logged_in, settings_of

NAME = "notebooks"
USERS = 10
PAUSE = 0.05
"""Seconds between two looks at a server."""


def notebooks(bench: Bench) -> Iterator[Measure]:
    """Ten servers of one user after another, and ten users' at once: from the form to JupyterLab's page.

    Raises:
        UserError: the site has no notebooks, or no users of its own.
    """
    with bench_site(bench, up="platform") as context, ExitStack() as stack:
        bench.progress.update(f"{NAME}: {USERS} users log in")
        users = [logged_in(context, f"bench-{number}", stack) for number in range(USERS)]
        first = users[0]
        _start(context, first)  # what only the first start of a site costs
        first.stop_server()
        after_another, stopped = [], []
        for run in range(USERS * bench.runs):
            bench.progress.update(f"{NAME}: server {run + 1} of {USERS * bench.runs}")
            after_another.append(_start(context, first))
            begin = time.monotonic()
            first.stop_server()
            stopped.append(round(time.monotonic() - begin, 2))
        yield Measure(benchmark=NAME, what="1 server to JupyterLab", unit="s", samples=tuple(after_another))
        yield Measure(benchmark=NAME, what="1 server stopped", unit="s", samples=tuple(stopped))
        last, median = [], []
        for run in range(bench.runs):
            bench.progress.update(f"{NAME}: {USERS} servers at once, run {run + 1} of {bench.runs}")
            with ThreadPoolExecutor(USERS) as pool:
                seconds = sorted(pool.map(partial(_start, context), users))
                last.append(seconds[-1])
                median.append(seconds[len(seconds) // 2])
                list(pool.map(User.stop_server, users))
        yield Measure(benchmark=NAME, what=f"last of {USERS} servers at once", unit="s", samples=tuple(last))
        yield Measure(benchmark=NAME, what=f"median of {USERS} servers at once", unit="s", samples=tuple(median))


def _start(context: SiteContext, user: User) -> float:
    """Starts a server with the first profile; returns the seconds until JupyterLab's page."""
    settings = settings_of(context)
    begin = user.request_server(settings.profiles[0].name)
    user.wait_for_server(settings.start_seconds, PAUSE)
    return round(time.monotonic() - begin, 2)


BENCHMARKS = (
    Benchmark(
        NAME,
        "Notebooks",
        "10 servers one after another, and 10 at once, until JupyterLab responds",
        "platform",
        notebooks,
    ),
    Benchmark(
        simulated.NAME,
        "Notebooks on simulated nodes",
        f"{simulated.USERS} servers at once on nodes played by KWOK, until the hub reports them ready",
        "platform",
        simulated.notebooks_64,
    ),
)
