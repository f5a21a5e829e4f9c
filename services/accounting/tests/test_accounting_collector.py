"""The collector as a process, between an API server of the tests and a real PostgreSQL."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
import requests

from strata_bench.https_server import in_background
from strata_bench.services import PostgreSQL, free_port, service_python
from strata_bench.waiting import eventually

from .cluster import Cluster, ended, node, pod, serving
from .records import Records, migrated_database

WAIT_SECONDS = 180.0
GIB = 2**30
GPU = "nvidia.com/gpu"
Connection = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def database(postgresql: PostgreSQL, tmp_path_factory: pytest.TempPathFactory) -> Records:
    return migrated_database(postgresql, "accounting_collected", tmp_path_factory.mktemp("collected"))


@pytest.fixture
def connection(database: Records) -> Iterator[Connection]:
    with database.connect() as opened:
        opened.execute("TRUNCATE pod, pod_usage, node, collection, card_energy, model_usage")
        yield opened


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    fake = Cluster()
    fake.nodes = {"worker-1": node("worker-1"), "gpu-1": node("gpu-1", "7500m", "32Gi", **{"nvidia.com_gpu": "2"})}
    with serving(fake):
        yield fake


@pytest.fixture
def collecting(database: Records, cluster: Cluster, tmp_path: Path) -> Callable[..., Any]:
    """`with collecting() as process:` runs the collector; killed at the end, without a chance to tidy up."""

    @contextmanager
    def run(**settings: str) -> Iterator[subprocess.Popen[bytes]]:
        environment = {
            **database.environment,
            "ACCOUNTING_KUBERNETES_URL": cluster.url,
            "ACCOUNTING_KUBERNETES_CREDENTIALS": "none",
            "ACCOUNTING_TENANTS": "research,teaching",
            "ACCOUNTING_CARD_RESOURCES": GPU,
            "ACCOUNTING_WATCH_SECONDS": "1",
            "ACCOUNTING_METRICS_PORT": "0",
            "ACCOUNTING_ALIVE_FILE": str(tmp_path / "collected"),
            **settings,
        }
        with (tmp_path / "log").open("ab") as log:
            command = [str(service_python("accounting")), "-m", "accounting", "collect"]
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    return run


def until(condition: Callable[[], object]) -> None:
    """Waits for it."""
    eventually(condition, WAIT_SECONDS, "the collector has done it", pause=0.05)


def fetch(connection: Connection, query: str, *arguments: object) -> Any:
    """The only row, or its only value."""
    row = connection.execute(query.encode(), arguments).fetchone()
    return row[0] if row and len(row) == 1 else row


def collected(connection: Connection) -> Any:
    return fetch(connection, "SELECT at FROM collection WHERE source = 'kubernetes'")


def test_pods_are_recorded_as_what_they_are(
    connection: Connection, cluster: Cluster, collecting: Callable[..., Any]
) -> None:
    hub = {"hub.jupyter.org/username": "ada"}
    half = {"cpu": "500m", "memory": "512Mi"}
    init = [
        {"name": "sidecar", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
        {"name": "first", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}},
    ]
    cluster.put(
        pod("research", "jupyter-ada", requests={"cpu": "2", "memory": "8Gi", GPU: "1"}, annotations=hub,
            labels={"component": "singleuser-server"}, node="gpu-1"),
        pod("hub", "jupyter-eve", labels={"strata.dev/tenant": "teaching", "component": "singleuser-server"}),
        pod("research", "stolen", labels={"strata.dev/tenant": "teaching"},
            annotations={"strata.dev/user": "bob@example.org"}),
        pod("hub", "unknown", labels={"strata.dev/tenant": "nobody"}),
        pod("research", "execute", priorityClassName="batch", requests={"cpu": "1e0", "memory": "1G"}),
        pod("teaching", "dask", labels={"gateway.dask.org/cluster": "c0ffee"}),
        pod("research", "with-init", requests=half, initContainers=init, overhead={"cpu": "10m"}),
        pod("research", "waiting", node=None, requests={"cpu": "4"}),
        ended(pod("research", "done"), "2026-11-22T10:30:00Z"),
        {**pod("research", "evicted"), "status": {"phase": "Failed", "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-22T10:00:00Z"},
            {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "2026-11-22T10:20:00Z"}]}},
    )  # fmt: skip
    with collecting():
        until(lambda: collected(connection))
    rows = connection.execute(
        "SELECT name, tenant, username, kind, node, cpus, memory_bytes, cards, card, starts, ends FROM pod "
        "ORDER BY name"
    ).fetchall()
    start = datetime(2026, 11, 22, 10, tzinfo=UTC)
    assert rows == [
        ("dask", "teaching", None, "dask", "worker-1", 0.0, 0, 0, None, start, None),
        ("done", "research", None, "pod", "worker-1", 0.0, 0, 0, None, start, start + timedelta(minutes=30)),
        ("evicted", "research", None, "pod", "worker-1", 0.0, 0, 0, None, start, start + timedelta(minutes=20)),
        ("execute", "research", None, "batch", "worker-1", 1.0, 10**9, 0, None, start, None),
        ("jupyter-ada", "research", "ada", "notebook", "gpu-1", 2.0, 8 * GIB, 1, GPU, start, None),
        ("jupyter-eve", "teaching", None, "notebook", "worker-1", 0.0, 0, 0, None, start, None),
        ("stolen", "research", "bob@example.org", "pod", "worker-1", 0.0, 0, 0, None, start, None),
        ("unknown", None, None, "pod", "worker-1", 0.0, 0, 0, None, start, None),
        # the larger init container beside the sidecar, and the overhead
        ("with-init", "research", None, "pod", "worker-1", 2.11, GIB, 0, None, start, None),
    ]
    sizes = connection.execute("SELECT name, cpus, memory_bytes, cards FROM node ORDER BY name").fetchall()
    assert sizes == [("gpu-1", 7.5, 32 * GIB, 2), ("worker-1", 8.0, 16 * GIB, 0)]


def test_what_happens_to_pods_is_followed(
    connection: Connection, cluster: Cluster, collecting: Callable[..., Any]
) -> None:
    with collecting():
        until(lambda: cluster.watches)
        short, deleted, waiting = pod("research", "short"), pod("research", "deleted"), pod("research", "w", node=None)
        cluster.put(short, deleted, waiting)
        cluster.remove(ended(short, "2026-11-22T10:00:30Z"))  # gone at once: no list would have seen it
        until(lambda: fetch(connection, "SELECT count(*) FROM pod WHERE name = 'deleted'"))
        until(lambda: fetch(connection, "SELECT count(*) FROM pod WHERE name = 'short' AND ends IS NOT NULL"))
        assert fetch(connection, "SELECT ends - starts FROM pod WHERE name = 'short'") == timedelta(seconds=30)
        before = datetime.now(UTC)
        cluster.remove(deleted)
        cluster.put(pod("research", "w", requests={"cpu": "1"}, scheduled="2026-11-22T11:00:00Z"))
        until(lambda: fetch(connection, "SELECT count(*) FROM pod WHERE name = 'w'"))
        ends, estimated = fetch(connection, "SELECT ends, end_estimated FROM pod WHERE name = 'deleted'")
        assert before <= ends <= datetime.now(UTC)
        assert not estimated
        assert cluster.lists == 1, "no second list was needed"


def test_a_killed_collector_loses_nothing_that_kubernetes_knows(
    connection: Connection, cluster: Cluster, collecting: Callable[..., Any]
) -> None:
    running, finished, vanished = (pod("research", name) for name in ("running", "finished", "vanished"))
    cluster.put(running, finished, vanished)
    with collecting():
        until(lambda: cluster.watches > 1)  # so that a whole watch was noted
    last = collected(connection)
    cluster.put(ended(finished, "2026-11-22T12:00:00Z"), pod("research", "new"))
    cluster.remove(vanished)
    with collecting():
        until(lambda: collected(connection) > last)
    rows = dict(connection.execute("SELECT name, (ends, end_estimated) FROM pod").fetchall())
    assert set(rows) == {"running", "finished", "vanished", "new"}
    assert rows["running"] == rows["new"] == (None, "f")
    assert fetch(connection, "SELECT ends FROM pod WHERE name = 'finished'") == datetime(2026, 11, 22, 12, tzinfo=UTC)
    assert fetch(connection, "SELECT ends, end_estimated FROM pod WHERE name = 'vanished'") == (last, True)


def test_the_same_again_changes_no_row(
    connection: Connection, cluster: Cluster, collecting: Callable[..., Any]
) -> None:
    cluster.put(*(pod("research", f"p{n}", requests={"cpu": "1"}) for n in range(5)))
    cluster.put(ended(pod("research", "done"), "2026-11-22T10:30:00Z"))
    with collecting():
        until(lambda: collected(connection))
    state = (
        "SELECT uid::text AS key, xmin::text, ctid::text FROM pod UNION SELECT name, xmin::text, ctid::text FROM node"
    )
    before = sorted(connection.execute(state.encode()).fetchall())
    assert len(before) == 8
    lists = cluster.lists
    with collecting(ACCOUNTING_LIST_SECONDS="1"):
        until(lambda: cluster.lists > lists + 9)  # three pages each
    assert sorted(connection.execute(state.encode()).fetchall()) == before


def test_an_expired_watch_lists_again(connection: Connection, cluster: Cluster, collecting: Callable[..., Any]) -> None:
    with collecting():
        until(lambda: cluster.watches)
        cluster.expire()
        unseen = pod("research", "unseen")
        cluster.put(unseen)
        cluster.events.clear()
        until(lambda: fetch(connection, "SELECT count(*) FROM pod WHERE name = 'unseen'"))


def test_an_api_server_that_refuses_is_asked_again(
    connection: Connection, cluster: Cluster, collecting: Callable[..., Any], tmp_path: Path
) -> None:
    cluster.refused = 403
    cluster.put(pod("research", "later"))
    with collecting() as process:
        until(lambda: "403" in (tmp_path / "log").read_text())
        assert process.poll() is None
        assert not (tmp_path / "collected").exists(), "it is not ready"
        cluster.refused = None
        until(lambda: fetch(connection, "SELECT count(*) FROM pod"))
        until((tmp_path / "collected").exists)
    for line in (tmp_path / "log").read_text().splitlines():
        assert {"time", "level", "message"} <= json.loads(line).keys()


def test_nodes_that_change_have_a_row_for_each_size(
    connection: Connection, cluster: Cluster, collecting: Callable[..., Any]
) -> None:
    with collecting(ACCOUNTING_LIST_SECONDS="1"):
        until(lambda: fetch(connection, "SELECT count(*) FROM node") == 2)
        cluster.nodes["gpu-1"] = node("gpu-1", "7500m", "32Gi", **{"nvidia.com_gpu": "1"})
        del cluster.nodes["worker-1"]
        until(lambda: fetch(connection, "SELECT count(*) FROM node WHERE ends IS NULL") == 1)
    rows = connection.execute(
        "SELECT name, cards, ends IS NULL, lead(starts) OVER (PARTITION BY name ORDER BY starts) = ends "
        "FROM node ORDER BY name, starts"
    ).fetchall()
    assert rows == [("gpu-1", 2, False, True), ("gpu-1", 1, True, None), ("worker-1", 0, False, None)]


class Prometheus:
    """Answers queries for one hour, and no others."""

    def __init__(self, hour: datetime) -> None:
        self.hour, self.url, self.queries, self.broken = hour, "", 0, False

    def result(self, query: str, at: float) -> list[dict[str, Any]]:
        self.queries += 1
        if at != (self.hour + timedelta(hours=1)).timestamp():
            return []
        named = {"namespace": "research", "pod": "trainer"}
        other = {"namespace": "research", "pod": "nobody-knows"}
        for metric, value in {
            "container_cpu_usage_seconds_total": "900",
            "avg_over_time(container_memory": str(GIB),
            "max_over_time(container_memory": str(2 * GIB),
            "DCGM_FI_DEV_GPU_UTIL": "50",
        }.items():
            if metric in query:
                return [{"metric": labels, "value": [at, value]} for labels in (named, other)]
        if query.startswith("last_over_time(inference"):
            return []
        counted: dict[str, list[tuple[dict[str, str], str]]] = {
            'inference_model_requests_total{status=~"2.."}[1h]': [({}, "3")],
            "inference_tokens_total[1h]": [({"direction": "in"}, "40"), ({"direction": "out"}, "12")],
        }
        for metric, counts in counted.items():
            if metric == query:
                asked = {"model": "research/words", "tenant": "research"}
                never = {"model": "research/words", "tenant": "teaching"}
                return [
                    {"metric": tenant | labels, "values": [[at - 60, "0"], [at, value]]}
                    for labels, count in counts
                    for tenant, value in ((asked, count), (never, "0"))
                ]
        assert "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" in query
        return [{"metric": {"UUID": "GPU-1", "Hostname": "gpu-1"}, "value": [at, "3600000"]}]


@pytest.fixture
def prometheus() -> Iterator[Prometheus]:
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
    fake = Prometheus(hour)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fields = parse_qs(urlsplit(self.path).query)
            result = [] if fake.broken else fake.result(fields["query"][0], float(fields["time"][0]))
            kind = "matrix" if fields["query"][0].endswith("[1h]") else "vector"
            body: dict[str, Any] = {"status": "success", "data": {"resultType": kind, "result": result}}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>" if fake.broken else json.dumps(body).encode())

        def log_message(self, format: str, *arguments: Any) -> None:
            """Logs nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake.url = f"http://127.0.0.1:{server.server_port}"
    with in_background(server):
        yield fake


def test_usage_is_recorded_by_the_hour(
    connection: Connection, cluster: Cluster, collecting: Callable[..., Any], prometheus: Prometheus
) -> None:
    half = prometheus.hour + timedelta(minutes=30)
    trainer = pod("research", "trainer", requests={GPU: "1"}, scheduled=f"{half:%Y-%m-%dT%H:%M:%SZ}")
    cluster.put(trainer)
    with collecting():
        until(lambda: collected(connection))
    with collecting(ACCOUNTING_PROMETHEUS_URL=prometheus.url):
        until(lambda: fetch(connection, "SELECT count(*) FROM collection WHERE source = 'prometheus' AND at = "
                                      "date_trunc('hour', now())"))  # fmt: skip
    rows = connection.execute(
        "SELECT name, hour, cpu_seconds, memory_bytes_mean, memory_bytes_peak, card_busy_seconds "
        "FROM pod_usage JOIN pod USING (uid)"
    ).fetchall()
    # half of the card's time in the half of the hour that the pod ran
    assert rows == [("trainer", prometheus.hour, 900.0, float(GIB), float(2 * GIB), 900.0)]
    assert fetch(connection, "SELECT card, hour, node, joules FROM card_energy") == (
        "GPU-1", prometheus.hour, "gpu-1", 3600.0,
    )  # fmt: skip
    used = connection.execute("SELECT hour, model, tenant, requests, tokens_in, tokens_out FROM model_usage")
    assert used.fetchall() == [(prometheus.hour, "research/words", "research", 3, 40, 12)]
    queries, watches = prometheus.queries, cluster.watches
    with collecting(ACCOUNTING_PROMETHEUS_URL=prometheus.url):
        until(lambda: cluster.watches > watches)  # so that the queries before it are over
        assert prometheus.queries - queries <= 8, "only hours that are new are asked for"


def test_a_prometheus_that_fails_does_not_stop_the_rest(
    connection: Connection, cluster: Cluster, collecting: Callable[..., Any], prometheus: Prometheus, tmp_path: Path
) -> None:
    prometheus.broken = True
    cluster.put(pod("research", "trainer"))
    with collecting(ACCOUNTING_PROMETHEUS_URL=prometheus.url):
        until(lambda: cluster.watches)
        assert fetch(connection, "SELECT count(*) FROM pod") == 1
    assert "Prometheus" in (tmp_path / "log").read_text()
    assert fetch(connection, "SELECT count(*) FROM pod_usage") == 0


def test_metrics_name_what_was_recorded_and_until_when(
    connection: Connection, cluster: Cluster, collecting: Callable[..., Any]
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/metrics"
    cluster.put(pod("research", "one"), pod("research", "two"))

    def read() -> dict[str, float]:
        lines = requests.get(url, timeout=30).text.splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    # the backends of other collectors count until they end
    until(lambda: not fetch(connection, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'accounting'"))
    before = fetch(connection, "SELECT n_tup_ins + n_tup_upd FROM pg_stat_user_tables WHERE relname = 'pod'")
    rows, until_when = 'accounting_rows_written_total{table="pod"}', "accounting_recorded_until_timestamp_seconds"
    with collecting(ACCOUNTING_METRICS_PORT=str(port)):
        until(lambda: collected(connection))
        until(lambda: read()[rows] == before + 2)
        watches = cluster.watches
        cluster.put(pod("research", "three"))
        until(lambda: read()[rows] == before + 3)
        until(lambda: cluster.watches > watches)
        metrics = read()
        assert abs(metrics[f'{until_when}{{source="kubernetes"}}'] - collected(connection).timestamp()) < 30
        assert {name for name in metrics if until_when in name} == {f'{until_when}{{source="kubernetes"}}'}
        assert requests.get(f"http://127.0.0.1:{port}/", timeout=30).status_code == 404
