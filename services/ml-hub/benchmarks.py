"""How long the model hub's routes take."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from requests import Session

from strata.access.https import site_session
from strata.catalogue.site_services import issuer
from strata.errors import UserError
from strata.site.context import SiteContext
from strata.verify.tokens import client_token
from strata_bench.model import Bench, Benchmark, Measure
from strata_bench.site import bench_site
from strata_services.ml_hub.service import AUDIENCE, SERVICE

NAME = "ml-hub"
REQUESTS = 100
"""Of each route, in each run."""
CLIENTS = 10
"""At once."""
FILTERS = {
    "/models": {
        "authors": "author",
        "tasks": "pipeline_tag",
        "libraries": "library_name",
        "languages": "languages",
        "trained_datasets": "datasets",
    },
    "/datasets": {
        "authors": "author",
        "tasks": "task_categories",
        "languages": "languages",
        "size_categories": "size_categories",
    },
}
"""By list: last part of each filter's path, and the field that it filters by."""
LISTED = "/models"
TIMEOUT = 30.0


def routes(bench: Bench) -> Iterator[Measure]:
    """Each route from outside, over TLS and one connection: one client, then ten at once.

    Raises:
        UserError: the site has no model hub, or no issuer of its own.
    """
    with bench_site(bench, up="platform") as context:
        hub = _Hub(context)
        paths = hub.paths()
        for route, path in paths.items():
            bench.progress.update(f"{NAME}: {route}")
            with hub.session() as http:
                hub.milliseconds(http, path)  # the connection
                samples = tuple(hub.milliseconds(http, path) for _ in range(REQUESTS * bench.runs))
            yield Measure(benchmark=NAME, what=route, unit="ms", samples=samples)
        bench.progress.update(f"{NAME}: {CLIENTS} clients at once")
        ready = threading.Barrier(CLIENTS)

        def client(_: int) -> list[float]:
            with hub.session() as http:
                hub.milliseconds(http, LISTED)
                ready.wait(TIMEOUT)
                return [hub.milliseconds(http, path) for _ in range(bench.runs * 10) for path in paths.values()]

        with ThreadPoolExecutor(CLIENTS) as pool:
            together = tuple(sample for client_samples in pool.map(client, range(CLIENTS)) for sample in client_samples)
        yield Measure(benchmark=NAME, what=f"all routes, {CLIENTS} clients at once", unit="ms", samples=together)


class _Hub:
    def __init__(self, context: SiteContext) -> None:
        settings, own = SERVICE.of(context.site), issuer(context.site)
        if settings is None or own is None:
            raise UserError(
                f"benchmark {NAME}: site {context.site.name} has no model hub, or no issuer of its own",
                fix="name a site with platform.services.ml_hub and keycloak, such as inventories/lab",
            )
        self._context = context
        self._url = f"https://{settings.hostname}.{context.site.domain}/v3/ml-hub"
        with site_session(context) as http:
            self._token = client_token(http, own, context.secrets.get(own.client_secret), AUDIENCE.name)

    def session(self) -> Session:
        """A client with its token; each thread needs its own."""
        http = site_session(self._context)
        http.headers["Authorization"] = f"Bearer {self._token}"
        return http

    def milliseconds(self, http: Session, path: str) -> float:
        """Of one request, until its whole answer has come."""
        begin = time.perf_counter()
        response = http.get(self._url + path, timeout=TIMEOUT)
        taken = time.perf_counter() - begin
        response.raise_for_status()
        return round(taken * 1000, 2)

    def paths(self) -> dict[str, str]:
        """A path of each route, with values that the catalogue has."""
        routes = {f"/{name}": f"/{name}" for name in ("authors", "tasks", "libraries", "languages")}
        with self.session() as http:
            for listed in FILTERS:
                routes |= self._paths_below(http, listed)
        return routes

    def _paths_below(self, http: Session, listed: str) -> dict[str, str]:
        """Those of models or of datasets; a catalogue without any has the list alone."""
        routes = {listed: listed}
        first = next(iter(http.get(self._url + listed, timeout=TIMEOUT).json()["result"].items()), None)
        if first is None:
            return routes
        name, entry = first
        routes[f"{listed}/NAME"] = f"{listed}/{name}"
        routes[f"{listed}/search/WORDS"] = f"{listed}/search/{name.rpartition('/')[2]}"
        for route, field in FILTERS[listed].items():
            value = entry.get(field)
            value = next(iter(value), None) if isinstance(value, list) else value
            if value:
                routes[f"{listed}/{route}/NAME"] = f"{listed}/{route}/{value}"
        return routes


BENCHMARKS = (
    Benchmark(NAME, "Model hub", f"each route, {REQUESTS} times a run; {CLIENTS} clients at once", "platform", routes),
)
