"""Turns idle jobs into execution points, every few seconds; keeps no state of its own."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from strata_condor import explanations
from strata_condor.kubernetes import Kubernetes, Unavailable
from strata_condor.plan import Limits, Point, Pool, Shape
from strata_condor.queue import ATTRIBUTES, SELECTION, STATES, Snapshot, merged, snapshot, usage
from strata_condor.reservations import Reservations, Room

METRICS_PORT = 9100
STALE_SECONDS = 120.0
"""Without a pass for so long the provisioner is restarted."""
MOST_EXPLAINED = 1000
"""Jobs of a tenant whose text changes in one pass; the others follow in the next."""
POINT_STATES = ("pending", "idle", "busy")
"""Of an execution point: without a node or not ready yet, without a job, with one."""


@dataclass(frozen=True)
class Settings:
    """What the chart writes.

    Args:
        schedds: names, one of each tenant.
        default_image: name of the image of jobs that name none.
        seconds: between two passes.
        pool: limits.
        kubernetes: where execution points are made.
        reservations: their room in tenants' quotas; None where no quota counts them.
    """

    schedds: tuple[str, ...]
    default_image: str
    seconds: float
    pool: Pool
    kubernetes: Kubernetes
    reservations: Reservations | None = None

    @classmethod
    def load(cls, directory: Path) -> Settings:
        """From `settings.json` and `job.json`."""
        given = json.loads((directory / "settings.json").read_text())
        template = json.loads((directory / "job.json").read_text())
        tenants = {t["name"]: Limits(t["cpus"], t["memory"], t["cards"], t["priorityFactor"]) for t in given["tenants"]}
        images = given["images"]
        of_points = (given["card"], given["millicpus"], images)
        cluster = Kubernetes(given["namespace"], template, *of_points, shared=given["shared"])
        pool = Pool(given["maximum"], tenants, tuple(images))
        schedds = tuple(f"{name}@{given['domain']}" for name in tenants)
        reservations = Reservations(cluster, given["reservation"]) if given["reservation"] else None
        return cls(schedds, given["defaultImage"], given["seconds"], pool, cluster, reservations)


class Condor:
    """The pool, by HTCondor's client for Python."""

    def __init__(self, schedds: Collection[str], default_image: str) -> None:
        import htcondor2  # type: ignore[import-not-found]  # noqa: PLC0415  # in the image only

        self._client, self._schedds, self._image = htcondor2, schedds, default_image
        self._last: dict[str, Snapshot] = {}

    def queue(self) -> Snapshot:
        """The jobs of all schedds; of one that does not respond, those of its last answer."""
        for name in self._schedds:
            try:
                schedd = self._client.Schedd(self._locate(self._client.DaemonType.Schedd, name))
                ads = schedd.query(constraint=SELECTION, projection=ATTRIBUTES)
                self._last[name] = snapshot(ads, self._image)
            except Exception as error:
                log(f"schedd {name}: {type(error).__name__}: {error}")
        return merged(self._last.values())

    def usage(self) -> dict[str, float]:
        """What the central manager's accountant has of each tenant."""
        negotiator = self._client.Negotiator(self._locate(self._client.DaemonType.Negotiator))
        return usage(negotiator.getPriorities())

    def _locate(self, *arguments: Any) -> Any:
        return self._client.Collector().locate(*arguments)


@dataclass
class Provisioner:
    """One pass after the other.

    Args:
        settings: of the pool.
        queue: reads the queue.
        usage: reads the tenants' usage.
        explain: writes a text into the ads of a tenant's jobs, by id.
    """

    settings: Settings
    queue: Callable[[], Snapshot]
    usage: Callable[[], Mapping[str, float]]
    explain: Callable[[str, Sequence[str], str], None] = lambda *_: None
    metrics: str = ""
    last_pass: float = field(default_factory=time.monotonic)

    def run_once(self) -> None:
        """Compares the queue with the execution points, and acts.

        Raises:
            Unavailable: Kubernetes' API does not respond, or refuses.
        """
        cluster = self.settings.kubernetes
        # the points first: a job that starts in between makes one of them busy, not spare
        listed = list(cluster.points())
        queue = self.queue()
        points = self._with_room([replace(point, busy=point.name in queue.busy) for point in listed])
        rooms: dict[str, Room] = {}

        def reserve(shape: Shape) -> bool:
            if (reservations := self.settings.reservations) is None:
                return True
            if shape.tenant not in rooms:
                rooms[shape.tenant] = reservations.room(shape.tenant)
            needed = reservations.needed(shape)
            if rooms[shape.tenant].missing(needed):
                return False
            rooms[shape.tenant].take(needed)
            return True

        plan = self.settings.pool.plan(queue.idle, points, self.usage() if queue.idle else {}, reserve)
        tenants = {point.name: point.shape.tenant for point in points}
        for name in plan.delete:
            self._delete(name, tenants[name], "no job waits for it")
        for shape in plan.create:
            self._create(shape)
        self._explain(queue, plan.waiting, rooms)
        self.metrics = exposition(queue, points, self.settings.pool.tenants, time.time())
        self.last_pass = time.monotonic()

    def _with_room(self, points: list[Point]) -> list[Point]:
        """Execution points that still have their room in the tenant's quota; a server took that of the others, which
        end. Reservations of points that have ended are deleted."""
        if (reservations := self.settings.reservations) is None:
            return points
        held = {tenant: reservations.points(tenant) for tenant in self.settings.pool.tenants}
        names = {point.name for point in points}
        for tenant, ended in ((tenant, pods - names) for tenant, pods in held.items()):
            for name in sorted(ended):
                reservations.release(tenant, name)
        lost = [p for p in points if p.reserved and p.name not in held.get(p.shape.tenant, ())]
        for point in lost:
            self._delete(point.name, point.shape.tenant, "a server took its room in the tenant's quota")
        return [point for point in points if point not in lost]

    def _explain(self, queue: Snapshot, waiting: Collection[Shape], rooms: Mapping[str, Room]) -> None:
        """Jobs that wait for the quota name its users, and others no longer do."""
        texts: dict[Shape, str] = {}
        if reservations := self.settings.reservations:
            pods = {tenant: reservations.pods(tenant) for tenant in {shape.tenant for shape in waiting}}
            texts = {s: reservations.waits_for(s, rooms[s.tenant], pods[s.tenant]) for s in waiting}
        changed: dict[tuple[str, str], list[str]] = {}
        for (tenant, job), (shape, said) in queue.said.items():
            text = texts.get(shape, "") if shape else ""
            if said != text:
                changed.setdefault((tenant, text), []).append(job)
        for (tenant, text), jobs in changed.items():
            try:
                self.explain(tenant, jobs[:MOST_EXPLAINED], text)
            except Exception as error:
                # execution points matter more
                log(f"jobs of {tenant} do not show what they wait for: {error}")

    def _create(self, shape: Shape) -> None:
        cluster, reservations = self.settings.kubernetes, self.settings.reservations
        job = cluster.manifest(shape)
        if reservations is None or reservations.create(shape, job):
            cluster.create(job)
            what = f"{shape.cpus} CPUs, {shape.memory} MiB, {shape.cards} cards, image {shape.image}"
            log(f"created {job['metadata']['name']}: {what}")

    def _delete(self, name: str, tenant: str, why: str) -> None:
        self.settings.kubernetes.delete(name)
        if self.settings.reservations is not None:
            self.settings.reservations.release(tenant, name)
        log(f"deleted {name}: {why}")

    def run(self) -> None:
        """For ever; a daemon that does not respond is asked again in the next pass."""
        while True:
            try:
                self.run_once()
            except Unavailable as error:
                log(f"Kubernetes: {error}")
            except Exception as error:
                log(f"HTCondor: {type(error).__name__}: {error}")
            time.sleep(self.settings.seconds)


def exposition(queue: Snapshot, points: list[Point], tenants: Collection[str], now: float) -> str:
    """Metrics in the text format of Prometheus, zeros included.

    Args:
        queue: the jobs.
        points: the execution points.
        tenants: of the pool.
        now: seconds since 1970.
    """
    states = Counter((p.shape.tenant, "busy" if p.busy else "idle" if p.running else "pending") for p in points)
    lines = []
    for name, text, label, values, counts in (
        ("htcondor_jobs", "Jobs in the queue.", "status", STATES.values(), queue.jobs),
        ("htcondor_execution_points", "Execution points.", "state", POINT_STATES, states),
    ):
        every = {(tenant, value) for tenant in tenants for value in values} | set(counts)
        lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
        lines += [f'{name}{{tenant="{t}",{label}="{value}"}} {counts[t, value]}' for t, value in sorted(every)]
    cards: Counter[str] = Counter()
    for point in points:
        cards[point.shape.tenant] += point.shape.cards
    name = "htcondor_accelerators"
    lines += [f"# HELP {name} Accelerators of execution points.", f"# TYPE {name} gauge"]
    lines += [f'{name}{{tenant="{tenant}"}} {cards[tenant]}' for tenant in sorted({*tenants, *cards})]
    name = "htcondor_oldest_idle_job_seconds"
    lines += [f"# HELP {name} How long the longest waiting job has been idle.", f"# TYPE {name} gauge"]
    for tenant in sorted({*tenants, *queue.idle_since}):
        waited = max(0, int(now) - queue.idle_since[tenant]) if tenant in queue.idle_since else 0
        lines.append(f'{name}{{tenant="{tenant}"}} {waited}')
    return "\n".join([*lines, ""])


def serve(provisioner: Provisioner, port: int = METRICS_PORT) -> ThreadingHTTPServer:
    """`/metrics`, and `/healthz`, which fails when no pass succeeds any more."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            healthy = time.monotonic() - provisioner.last_pass < STALE_SECONDS
            body = provisioner.metrics if self.path == "/metrics" else f"{'ok' if healthy else 'no pass succeeds'}\n"
            self.send_response(200 if self.path == "/metrics" or healthy else 503)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are not logged."""

    server = ThreadingHTTPServer(("", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def log(text: str) -> None:
    """A line for `kubectl logs`."""
    print(f"{time.strftime('%FT%TZ', time.gmtime())} {text}", flush=True)


def main() -> None:
    """Runs the provisioner."""
    settings = Settings.load(Path(os.environ["STRATA_CONDOR_DIRECTORY"]))
    condor = Condor(settings.schedds, settings.default_image)
    secret = Path(os.environ["STRATA_PROVISIONER_SECRET_FILE"]).read_text().strip()
    explain = explanations.client(os.environ["STRATA_ACCESS_POINT"], secret)
    provisioner = Provisioner(settings, condor.queue, condor.usage, explain)
    serve(provisioner)
    provisioner.run()
