"""Command line: `python -m accounting migrate | collect | jobs | serve`."""

from __future__ import annotations

import argparse
import sys
import time
from datetime import UTC, datetime

import psycopg
from pydantic import ValidationError

from accounting import jobs
from accounting.collector import Collector, log
from accounting.htcondor import Client, Schedd
from accounting.kubernetes import Api
from accounting.metrics import Metrics
from accounting.migrations import migrate
from accounting.pods import Reader
from accounting.retention import Retention
from accounting.settings import DatabaseSettings, JobSettings, ServeSettings, Settings
from strata_http import logs, server

DATABASE_SECONDS = 120.0
"""How long `migrate` waits for the database."""


def main() -> int:
    """Entry point; status 2 for wrong settings."""
    parser = argparse.ArgumentParser(prog="accounting", description=__doc__)
    parser.add_argument(
        "command",
        choices=["migrate", "collect", "jobs", "serve"],
        help="migrate: bring the schema to this release's version; collect: follow the cluster's pods; "
        "jobs: read the batch system's history; serve: take users' measurements",
    )
    command = parser.parse_args().command
    try:
        if command == "migrate":
            _migrate(DatabaseSettings())
        elif command == "collect":
            _collect(Settings())
        elif command == "jobs":
            _jobs(JobSettings())
        else:
            _serve(ServeSettings())
    except ValidationError as error:
        for message in DatabaseSettings.messages(error):
            print(f"error: {message}", file=sys.stderr)
        return 2
    return 0


def _migrate(settings: DatabaseSettings) -> None:
    end = time.monotonic() + DATABASE_SECONDS
    while True:
        try:
            with settings.connect() as connection:
                before, after = migrate(connection)
            log("info", "migrated", before=before, after=after)
            return
        except psycopg.OperationalError as error:
            if time.monotonic() > end:
                raise
            log("error", str(error).strip())
            time.sleep(2)


def _collect(settings: Settings) -> None:
    none = settings.kubernetes_credentials == "none"
    api = Api(settings.kubernetes_url, token_file=None, ca_file=None) if none else Api(settings.kubernetes_url)
    metrics = Metrics()
    metrics.serve(settings.metrics_port)
    Collector(
        api,
        Reader(_names(settings.tenants), _names(settings.card_resources)),
        settings.connect,
        Retention(settings.retention_usage, settings.retention_records, settings.retention_measurements or None),
        prometheus_url=settings.prometheus_url.rstrip("/"),
        list_seconds=settings.list_seconds,
        watch_seconds=settings.watch_seconds,
        alive_file=settings.alive_file,
        metrics=metrics,
    ).run()


def _jobs(settings: JobSettings) -> None:
    client = Client(settings.htcondor_collector, settings.htcondor_domain, settings.htcondor_token_file)
    queues = {name: Schedd(client, name) for name in sorted(_names(settings.htcondor_schedds))}
    while True:
        try:
            with settings.connect() as connection:
                new = jobs.record(connection, queues, datetime.now(UTC))
            log("info", "read the history", new=new)
        except (jobs.NoPool, psycopg.OperationalError, OSError) as error:
            log("error", str(error).strip())
        settings.jobs_alive_file.touch()  # a pool or database that is down is not a reason to start again
        time.sleep(settings.jobs_seconds)


def _serve(settings: ServeSettings) -> None:
    from accounting.rest import create_app  # noqa: PLC0415  # the other commands need no routes

    logs.configure(settings.log_level)
    server.serve(create_app(settings), settings)


def _names(text: str) -> frozenset[str]:
    return frozenset(name for name in text.split(",") if name)


if __name__ == "__main__":
    sys.exit(main())
