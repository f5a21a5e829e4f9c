"""Follows the cluster's pods and nodes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import psycopg

from accounting import prometheus, store
from accounting.kubernetes import Api, Expired, Unavailable
from accounting.metrics import Metrics
from accounting.pods import Reader
from accounting.retention import Retention, apply
from accounting.store import Connection
from strata_http.prometheus import NoAnswer

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
RETRY_SECONDS = 5.0
"""Pause after the API server or the database did not respond."""


class Collector:
    """Lists all pods and nodes, then follows what happens to pods; repeats both until it is stopped.

    Args:
        api: Kubernetes' API server.
        reader: of the site.
        connect: to the database, as its owner.
        retention: for how long records are kept.
        prometheus_url: empty where there is none.
        list_seconds: between two whole lists.
        watch_seconds: length of one watch; a restart of the collector estimates ends no worse than this.
        alive_file: touched after each list and watch.
        metrics: read after each list and watch.
    """

    def __init__(
        self,
        api: Api,
        reader: Reader,
        connect: Callable[[], Connection],
        retention: Retention,
        *,
        prometheus_url: str = "",
        list_seconds: int = 300,
        watch_seconds: int = 30,
        alive_file: Path | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.api, self.reader, self.connect, self.retention = api, reader, connect, retention
        self.prometheus_url = prometheus_url
        self.list_seconds, self.watch_seconds, self.alive_file = list_seconds, watch_seconds, alive_file
        self.metrics = metrics or Metrics()

    def run(self) -> None:
        """Collects until the process ends; errors of the network are logged and tried again."""
        while True:
            try:
                with self.connect() as connection:
                    while True:
                        self.round(connection)
            except (Unavailable, psycopg.OperationalError, OSError) as error:
                log("error", str(error).strip())
                time.sleep(RETRY_SECONDS)

    def round(self, connection: Connection) -> None:
        """One whole list, and the watches until the next."""
        end = time.monotonic() + self.list_seconds
        try:
            version = self.list(connection)
            while time.monotonic() < end:
                version = self.watch(connection, version)
        except Expired:
            log("info", "the API server no longer has the version to resume from; listing again")

    def list(self, connection: Connection) -> str:
        """Records all pods and nodes.

        Returns:
            The version to watch from.
        """
        at = datetime.now(UTC)
        nodes, _ = self.api.list(NODES)
        store.write_nodes(connection, {node["metadata"]["name"]: self.reader.node(node) for node in nodes}, at)
        pods, version = self.api.list(PODS)
        rows = [row for row in map(self.reader.pod, pods) if row is not None]
        store.write_all_pods(connection, rows, at)
        if self.prometheus_url:
            try:
                prometheus.record(connection, self.prometheus_url, at)
            except NoAnswer as error:
                log("warning", str(error))
        removed = apply(connection, self.retention, at)
        if any(removed.values()):
            log("info", "removed old records", **removed)
        log("info", "listed", pods=len(rows), nodes=len(nodes))
        self._alive(connection)
        return version

    def watch(self, connection: Connection, version: str) -> str:
        """Records what happens to pods for a while.

        Returns:
            The version to resume from.
        """
        for kind, pod in self.api.watch(PODS, version, self.watch_seconds):
            version = pod["metadata"]["resourceVersion"]
            if kind == "BOOKMARK":
                continue
            row = self.reader.pod(pod, gone_at=datetime.now(UTC) if kind == "DELETED" else None)
            if row is not None:
                store.write_pods(connection, [row])
        store.write_seen(connection, store.KUBERNETES, datetime.now(UTC))
        self._alive(connection)
        return version

    def _alive(self, connection: Connection) -> None:
        self.metrics.read(connection)
        if self.alive_file is not None:
            self.alive_file.touch()


def log(level: str, message: str, **fields: object) -> None:
    """One line of JSON on standard output."""
    line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "level": level, "message": message}
    print(json.dumps(line | fields), file=sys.stdout, flush=True)
