"""How long users wait for their pods."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import requests

from strata.access.https import site_session
from strata.access.users import Account, add_user, remove_user
from strata.catalogue.cluster_login import CLIENT, REDIRECT_URLS
from strata.catalogue.published import api_url
from strata.catalogue.site_services import issuer
from strata.errors import UserError
from strata.site.context import SiteContext
from strata.verify.tokens import Login
from strata_bench.model import Bench, Benchmark, Measure
from strata_bench.site import bench_site
from strata_services.tapis_pods.service import KEY, SERVICE

NAME = "tapis-pods"
STARTS = 5
"""One after another, in each run."""
TOGETHER = 20
PORT = 8000
PAUSE = 0.05
"""Seconds between two looks."""
RUNNING, STOPPED = frozenset({"AVAILABLE"}), frozenset({"STOPPED"})
IN_KUBERNETES = frozenset({"CREATING", "AVAILABLE"})
LIMIT_SECONDS = 120.0
TIMEOUT = 30.0


def pods(bench: Bench) -> Iterator[Measure]:
    """From the request to the page at the pod's own name, and from the request to STOPPED; then 20 created at once.

    Raises:
        UserError: the site has no Pods API, no tenants, or no users of its own.
    """
    with bench_site(bench, up="platform") as context, ExitStack() as stack:
        owner = _owner(context, stack)
        warm = owner.new_name()
        owner.create(warm)
        owner.wait(warm, RUNNING, time.monotonic())  # a node may have to pull the image
        owner.ask("DELETE", f"/{warm}")
        available, page, stopped = [], [], []
        for run in range(STARTS * bench.runs):
            bench.progress.update(f"{NAME}: pod {run + 1} of {STARTS * bench.runs}")
            name = owner.new_name()
            begin = time.monotonic()
            owner.create(name)
            owner.wait(name, RUNNING, begin)
            available.append(round(time.monotonic() - begin, 2))
            owner.read(name, begin)
            page.append(round(time.monotonic() - begin, 2))
            begin = time.monotonic()
            owner.ask("GET", f"/{name}/stop")
            owner.wait(name, STOPPED, begin)
            stopped.append(round(time.monotonic() - begin, 2))
            owner.ask("DELETE", f"/{name}")
        yield Measure(benchmark=NAME, what="1 pod, POST to AVAILABLE", unit="s", samples=tuple(available))
        yield Measure(benchmark=NAME, what="1 pod, POST to its page over HTTPS", unit="s", samples=tuple(page))
        yield Measure(benchmark=NAME, what="1 pod, stop to STOPPED", unit="s", samples=tuple(stopped))
        last = []
        for run in range(bench.runs):
            bench.progress.update(f"{NAME}: {TOGETHER} pods at once, run {run + 1} of {bench.runs}")
            names = [owner.new_name() for _ in range(TOGETHER)]
            begin = time.monotonic()
            with ThreadPoolExecutor(TOGETHER) as pool:
                list(pool.map(owner.create, names))
            for name in names:
                owner.wait(name, IN_KUBERNETES, begin)  # a small site has no room to run all of them
            last.append(round(time.monotonic() - begin, 2))
            owner.delete_all()
        what = f"{TOGETHER} pods at once, POST to the last in Kubernetes"
        yield Measure(benchmark=NAME, what=what, unit="s", samples=tuple(last))


@dataclass(frozen=True)
class _Owner:
    """A user of the API, whose pods serve a folder.

    Args:
        http: finds the site's names, and sends the user's token to the API alone.
        token: of the user.
        url: of the API's pods.
        domain: of pods' names.
        image: that tenants may run, with Python.
    """

    http: requests.Session
    token: str = field(repr=False)
    url: str
    domain: str
    image: str

    def ask(self, method: str, path: str = "", body: object = None) -> Any:
        """The result of one request.

        Raises:
            UserError: the API refused.
        """
        headers = {"X-Tapis-Token": self.token}
        answer = self.http.request(method, f"{self.url}{path}", json=body, headers=headers, timeout=TIMEOUT)
        if answer.status_code != 200:
            raise UserError(
                f"benchmark: {method} {self.url}{path} answered {answer.status_code}: {answer.text[:300]}",
                fix="`strata verify` of the site",
            )
        return answer.json()["result"]

    def new_name(self) -> str:
        """Of a pod; no other has it."""
        return f"bench{secrets.token_hex(4)}"

    def create(self, name: str) -> None:
        """A small web server."""
        self.ask(
            "POST",
            "",
            {
                "pod_id": name,
                "image": self.image,
                "command": ["python3", "-m", "http.server", str(PORT)],
                "networking": {"default": {"protocol": "http", "port": PORT}},
                "resources": {"cpu_request": 250, "cpu_limit": 1000, "mem_request": 256, "mem_limit": 256},
            },
        )

    def wait(self, name: str, states: frozenset[str], begin: float) -> None:
        """Until a pod has one of the states.

        Raises:
            UserError: not within LIMIT_SECONDS.
        """
        while (pod := self.ask("GET", f"/{name}"))["status"] not in states:
            if time.monotonic() - begin > LIMIT_SECONDS:
                raise UserError(
                    f"benchmark: pod {name} is still {pod['status']}: {pod['status_container'].get('message', '')}",
                    fix="`strata status` shows what the nodes and the tenant's quota have left",
                )
            time.sleep(PAUSE)

    def read(self, name: str, begin: float) -> None:
        """Until a pod's page is served at its own name.

        Raises:
            UserError: not within LIMIT_SECONDS.
        """
        while (status := self.http.get(f"https://{name}.{self.domain}/", timeout=TIMEOUT).status_code) != 200:
            if time.monotonic() - begin > LIMIT_SECONDS:
                raise UserError(
                    f"benchmark: the page of pod {name} answers {status}", fix="`strata verify` of the site"
                )
            time.sleep(PAUSE)

    def delete_all(self) -> None:
        """All pods of the user."""
        for pod in self.ask("GET"):
            self.ask("DELETE", f"/{pod['pod_id']}")


def _owner(context: SiteContext, stack: ExitStack) -> _Owner:
    """A new member of the first tenant; user and pods are gone when the stack closes.

    Raises:
        UserError: the site has no Pods API, no tenants, or no users of its own.
    """
    site, settings, own = context.site, SERVICE.of(context.site), issuer(context.site)
    if settings is None or own is None or own.users is None or not site.platform.tenants:
        raise UserError(
            f"benchmark: site {site.name} has no {'.'.join(map(str, KEY))}, no tenants, or no users of its own",
            fix="name another site",
        )
    if context.image_outputs is None:
        raise UserError("benchmark: the site has no images", fix="bring its cluster layer up first")
    name, password = f"bench-{secrets.token_hex(4)}", secrets.token_hex(16)
    first = add_user(context, Account(name, f"{name}@{site.domain}", (site.platform.tenants[0].name,)))
    stack.callback(remove_user, context, name)
    http = stack.enter_context(site_session(context))
    Login(CLIENT, REDIRECT_URLS[0]).tokens(http, own, name, first, password)
    api = api_url(site)
    asked = {"username": name, "password": password, "grant_type": "password"}
    answer = http.post(f"{api}/v3/oauth2/tokens", json=asked, timeout=TIMEOUT)
    answer.raise_for_status()
    token = answer.json()["result"]["access_token"]["access_token"]
    image = str(context.image_outputs.images["pod-base"])
    owner = _Owner(http, token, f"{api}/v3/pods", f"{settings.hostname}.{site.domain}", image)
    stack.callback(owner.delete_all)
    return owner


BENCHMARKS = (
    Benchmark(
        NAME,
        "Pods of users",
        "pods one after another, from POST to their page and from stop to STOPPED, and 20 at once",
        "platform",
        pods,
    ),
)
