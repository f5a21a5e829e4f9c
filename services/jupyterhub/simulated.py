"""How the hub starts many servers at once, on simulated nodes: without the work of real ones."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import yaml

from strata.access.kubectl import kubectl, kubectl_json
from strata.errors import UserError
from strata.site.context import SiteContext
from strata_bench.model import Bench, Measure
from strata_bench.simulated_nodes import LABEL, Cluster, Simulation, simulated_nodes
from strata_bench.site import bench_site, strata
from strata_bench.waiting import eventually
from strata_services.jupyterhub.needs import METRICS, NAMESPACE
from strata_services.jupyterhub.service import SERVICE
from strata_services.jupyterhub.user import User, logged_in, settings_of

NAME = "notebooks-64"
USERS = 64
LIMIT = 16
"""Servers at a time, where the others queue."""
NODES = 4
AT_ONCE = 4
"""Users who log in at the same time: for more, the issuer has not the processors."""
STUB = "strata-bench-server"
PORT = 8888
TAINT = {"key": "hub.jupyter.org/dedicated", "value": "user", "effect": "NoSchedule"}
"""Users' servers tolerate it, by zero-to-jupyterhub's defaults."""
SERVER = {"component": "singleuser-server"}
GROUP = "strata-bench"
"""Of the users, in the configuration of their tenant."""
SMALL = {"cpu_guarantee": 0.01, "mem_guarantee": "16M"}
"""All servers together fit into a small quota."""
SECONDS = 120.0
PROGRAM = f"""
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
class Server(ThreadingHTTPServer):
    request_queue_size = {4 * USERS}
Server(("", {PORT}), Handler).serve_forever()
"""
READ_METRICS = f"""
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:{METRICS.port}/metrics").read().decode())
"""


def notebooks_64(bench: Bench) -> Iterator[Measure]:
    """64 users of one tenant start servers at once; then, where the site may be changed, with fewer at a time.

    Raises:
        UserError: the site has no notebooks, or no users of its own; or a server did not start.
    """
    with bench_site(bench, up="platform") as context:
        settings_of(context)
        with _users(bench, context) as users, _configured(context, users):
            with _nodes(bench, context):
                yield from _measured(bench, context, users)
            if bench.allow_changes:
                with _limited(bench, context) as limited, _nodes(bench, limited):
                    yield from _measured(bench, limited, users)


def _measured(bench: Bench, context: SiteContext, users: Sequence[User]) -> Iterator[Measure]:
    """Where the site allows fewer servers than there are users, each stops when it is ready."""
    limit = settings_of(context).maximum_servers or USERS
    queue = limit < USERS
    what = f"{USERS} servers, {limit} at a time" if queue else f"{USERS} servers at once"
    measurements: dict[tuple[str, str], list[float]] = {}
    for run in range(bench.runs):
        bench.progress.update(f"{NAME}: {what}, run {run + 1} of {bench.runs}")
        hub, server = _hub(context), _api_server(context)
        ready = sorted(_start(context, users, stop=queue))
        after = _hub(context)
        for quantity, unit, value in (
            (f"last of {what}", "s", ready[-1]),
            (f"median of {what}", "s", ready[len(ready) // 2]),
            (f"{what}: hub, processor time", "s", after.seconds - hub.seconds),
            (f"{what}: hub, memory", "MiB", after.mib),
            (f"{what}: API server, processor time", "s", _api_server(context) - server),
        ):
            measurements.setdefault((quantity, unit), []).append(round(value, 2))
        if not queue:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(User.request_stop, users))
        _end(context, users)
    for (quantity, unit), samples in measurements.items():
        yield Measure(benchmark=NAME, what=quantity, unit=unit, samples=tuple(samples))


@contextmanager
def _limited(bench: Bench, context: SiteContext) -> Iterator[SiteContext]:
    """The site with `maximum_servers`; as before afterwards."""
    directory = bench.directory / "limited"
    shutil.copytree(context.site_file.parent, directory)
    file = directory / context.site_file.name
    content = yaml.safe_load(file.read_text())
    services = content["platform"]["services"]
    services[SERVICE.key] = {**(services[SERVICE.key] or {}), "maximum_servers": LIMIT}
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    try:
        bench.progress.update(f"{NAME}: {LIMIT} servers at a time")
        strata(file, "up", "--layer", "platform", "--no-verify")
        yield SiteContext.load(file)
    finally:
        bench.progress.update(f"{NAME}: any number of servers again")
        strata(context.site_file, "up", "--layer", "platform", "--no-verify")


def _start(context: SiteContext, users: Sequence[User], *, stop: bool) -> list[float]:
    """Sends all forms at once; returns the seconds until each server was ready.

    Args:
        context: of the site.
        users: who have logged in.
        stop: whether each server is stopped as soon as it is ready, so that another gets its turn.

    Raises:
        UserError: a server did not start.
    """
    settings = settings_of(context)
    profile, barrier = settings.profiles[0].name, threading.Barrier(len(users))
    failed: list[str] = []

    def start(user: User) -> float:
        form = user.open_form()
        barrier.wait(SECONDS)
        begin = time.monotonic()
        try:
            user.send_form(form, profile)
            user.wait_for_hub(SECONDS + settings.start_seconds)
        except (AssertionError, OSError) as error:
            failed.append(f"{user.name}: {error}")
        seconds = time.monotonic() - begin
        if stop:
            user.request_stop()
        return seconds

    with ThreadPoolExecutor(len(users)) as pool:
        ready = list(pool.map(start, users))
    if not failed and not stop:
        # the proxy has the routes
        for user in users:
            user.wait_for_server(SECONDS)
    if failed:
        raise UserError(
            f"benchmark: {len(failed)} of {len(users)} servers did not start; {failed[0]}",
            fix=f"kubectl -n {NAMESPACE.name} logs deployment/hub",
        )
    return ready


def _end(context: SiteContext, users: Sequence[User]) -> None:
    """Returns when the users have no pods."""
    names = {user.name for user in users}

    def gone() -> bool:
        selector = ",".join(f"{key}={value}" for key, value in SERVER.items())
        pods = kubectl_json(context, "get", "pods", f"--namespace={NAMESPACE.name}", f"--selector={selector}")
        return not names & {pod["metadata"]["labels"].get("hub.jupyter.org/username") for pod in pods["items"]}

    eventually(gone, SECONDS, "the servers have ended")


@contextmanager
def _nodes(bench: Bench, context: SiteContext) -> Iterator[None]:
    """Nodes on which servers are ready at once, at the address of one pod that responds for all."""
    run = partial(kubectl, context, seconds=SECONDS)
    here, pod = f"--namespace={NAMESPACE.name}", f"pod/{STUB}"
    try:
        run("delete", here, pod, "--ignore-not-found")  # of an interrupted run
        run("create", here, "--filename=-", text=json.dumps(_stub(context)))
        run("wait", here, pod, "--for=condition=Ready", f"--timeout={SECONDS - 10:.0f}s")
        address = run("get", here, pod, "--output=jsonpath={.status.podIP}")
        simulation = Simulation(STUB, NODES, TAINT, SERVER, address)
        cluster = Cluster(run, context.paths.kubeconfig)
        with simulated_nodes(cluster, simulation, bench.directory, bench.progress):
            yield
    finally:
        run("delete", here, pod, "--ignore-not-found")


def _stub(context: SiteContext) -> dict[str, Any]:
    """A pod with a server's labels, so that network policies let the hub and the proxy reach it; of the hub's image."""
    hub = kubectl_json(context, "get", "deployment", "hub", f"--namespace={NAMESPACE.name}")
    image = next(
        container["image"] for container in hub["spec"]["template"]["spec"]["containers"] if container["name"] == "hub"
    )
    container = {
        "name": "server",
        "image": image,
        "command": ["python3", "-c", PROGRAM],
        "ports": [{"name": "notebook-port", "containerPort": PORT}],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    identity = {"runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": STUB, "labels": {**hub["spec"]["selector"]["matchLabels"], **SERVER}},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "securityContext": identity,
            "containers": [container],
        },
    }


@contextmanager
def _users(bench: Bench, context: SiteContext) -> Iterator[list[User]]:
    """Users who have logged in, the first of them a principal investigator; gone afterwards."""
    stacks = [ExitStack() for _ in range(USERS)]
    in_order = iter(range(1, USERS + 1))

    def log_in(number: int) -> User:
        user = logged_in(context, f"bench-{number}", stacks[number], administrator=number == 0)
        bench.progress.update(f"{NAME}: {next(in_order)} of {USERS} users have logged in")
        return user

    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            users = list(pool.map(log_in, range(USERS)))
        yield users
    finally:
        bench.progress.update(f"{NAME}: the users are removed")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            removals = [pool.submit(stack.close) for stack in stacks]
        for removal in removals:
            removal.result()


@contextmanager
def _configured(context: SiteContext, users: Sequence[User]) -> Iterator[None]:
    """The users' servers request little and go to the simulated nodes."""
    tenant = context.site.platform.tenants[0].name
    operator, token = users[0], users[0].token()

    def request(method: str, body: object = None) -> None:
        url = f"{operator.hub}hub/api/tenants/{tenant}/configuration/groups/{GROUP}"
        headers = {"Authorization": f"token {token}"}
        response = operator.http.request(method, url, json=body, headers=headers, timeout=SECONDS)
        assert response.ok, response.text

    placed = {"extra_pod_config": {"nodeSelector": {LABEL: STUB}}}
    request("PUT", {"members": [user.name for user in users], **SMALL, **placed})
    try:
        yield
    finally:
        request("DELETE")


@dataclass(frozen=True)
class Usage:
    """What a process has used.

    Args:
        seconds: processor time since its start.
        mib: memory.
    """

    seconds: float
    mib: float


def _usage(metrics: str) -> Usage:
    """Of the process that reports these metrics."""
    values = dict(re.findall(r"^(process_\w+) (\S+)$", metrics, re.MULTILINE))
    return Usage(float(values["process_cpu_seconds_total"]), float(values["process_resident_memory_bytes"]) / 2**20)


def _hub(context: SiteContext) -> Usage:
    target = ("exec", f"--namespace={NAMESPACE.name}", "deployment/hub", "--container=hub", "--")
    return _usage(kubectl(context, *target, "python3", "-c", READ_METRICS, seconds=SECONDS))


def _api_server(context: SiteContext) -> float:
    """Processor seconds of the API server that responds."""
    return _usage(kubectl(context, "get", "--raw=/metrics", seconds=SECONDS)).seconds
