"""Usage of pods and models and energy of cards by the hour, from Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from accounting import store
from accounting.counters import growth
from accounting.store import Connection
from strata_http.prometheus import query

SOURCE = "prometheus"
HOUR = timedelta(hours=1)
KEPT = timedelta(days=7)
"""How far back the first collection goes."""
TIMEOUT_SECONDS = 20.0

_BY_POD = {
    "cpu_seconds": 'sum by (namespace, pod) (increase(container_cpu_usage_seconds_total{container!=""}[1h]))',
    "memory_mean": 'sum by (namespace, pod) (avg_over_time(container_memory_working_set_bytes{container!=""}[1h]))',
    "memory_peak": 'sum by (namespace, pod) (max_over_time(container_memory_working_set_bytes{container!=""}[1h]))',
    # percent of each card of the pod, added up
    "cards_busy": 'sum by (namespace, pod) (avg_over_time(DCGM_FI_DEV_GPU_UTIL{pod!=""}[1h]))',
}
_ENERGY = "increase((max by (UUID, Hostname) (DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION))[1h:1m])"
"""Millijoules; each pod that holds the card, and each of its MIG instances, has a series with the count of the card."""

_MODEL_REQUESTS, _MODEL_TOKENS = 'inference_model_requests{status=~"2.."}', "inference_tokens"

# of pods with one name in one hour, as of a StatefulSet, the one that ran longest
_UPSERT = """
INSERT INTO pod_usage (uid, hour, cpu_seconds, memory_bytes_mean, memory_bytes_peak, card_busy_seconds)
SELECT
    uid, %(hour)s, %(cpu_seconds)s, %(memory_mean)s, %(memory_peak)s,
    %(cards_busy)s::double precision / 100 * seconds
FROM (
    SELECT uid, seconds_within(starts, ends, %(hour)s, %(hour)s + interval '1 hour') AS seconds
    FROM pod WHERE namespace = %(namespace)s AND name = %(pod)s
) AS named
WHERE seconds > 0 ORDER BY seconds DESC LIMIT 1
ON CONFLICT (uid, hour) DO UPDATE SET
    cpu_seconds = EXCLUDED.cpu_seconds,
    memory_bytes_mean = EXCLUDED.memory_bytes_mean,
    memory_bytes_peak = EXCLUDED.memory_bytes_peak,
    card_busy_seconds = EXCLUDED.card_busy_seconds
"""

_UPSERT_ENERGY = """
INSERT INTO card_energy (card, hour, node, joules) VALUES (%s, %s, %s, %s)
ON CONFLICT (card, hour) DO UPDATE SET node = EXCLUDED.node, joules = EXCLUDED.joules
"""

_UPSERT_MODEL = """
INSERT INTO model_usage (hour, model, tenant, requests, tokens_in, tokens_out) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (hour, model, tenant) DO UPDATE SET
    requests = EXCLUDED.requests, tokens_in = EXCLUDED.tokens_in, tokens_out = EXCLUDED.tokens_out
"""


def record(connection: Connection, url: str, now: datetime) -> int:
    """Records each whole hour since the last one; those that are missed stay missing only when Prometheus is.

    Args:
        connection: of the database's owner.
        url: of Prometheus.
        now: the current time.

    Returns:
        How many hours.

    Raises:
        NoAnswer: after the hours that could be recorded.
    """
    end = now.replace(minute=0, second=0, microsecond=0)
    seen = store.seen(connection, SOURCE)
    hour = max(seen, end - KEPT) if seen else end - KEPT
    recorded = 0
    while hour < end:
        record_hour(connection, url, hour)
        hour += HOUR
        recorded += 1
    return recorded


def record_hour(connection: Connection, url: str, hour: datetime) -> None:
    """Records one hour, in one transaction.

    Args:
        connection: of the database's owner.
        url: of Prometheus.
        hour: its begin.

    Raises:
        NoAnswer: nothing was recorded.
    """
    pods = _read(url, hour, _BY_POD, ("namespace", "pod"))
    models = _read_models(url, hour)
    rows = [
        {"namespace": namespace, "pod": pod, "hour": hour, "cards_busy": None, **usage}
        for (namespace, pod), usage in sorted(pods.items())
        if {"cpu_seconds", "memory_mean", "memory_peak"} <= usage.keys()
    ]
    energy = [
        (series.metric["UUID"], hour, series.metric.get("Hostname", ""), series.value[1] / 1000)
        for series in query(url, _ENERGY, seconds=TIMEOUT_SECONDS, at=hour + HOUR)
        if "UUID" in series.metric
    ]
    with connection.transaction(), connection.cursor() as cursor:
        cursor.executemany(_UPSERT, rows)
        cursor.executemany(_UPSERT_ENERGY, energy)
        cursor.executemany(_UPSERT_MODEL, [(hour, *key, *use) for key, use in sorted(models.items()) if any(use)])
        store.write_seen(connection, SOURCE, hour + HOUR)


def _read(
    url: str, hour: datetime, expressions: Mapping[str, str], labels: tuple[str, str]
) -> dict[tuple[str, str], dict[str, float]]:
    """Values of an hour by two labels, each by the name of its expression."""
    values: dict[tuple[str, str], dict[str, float]] = {}
    for name, expression in expressions.items():
        for series in query(url, expression, seconds=TIMEOUT_SECONDS, at=hour + HOUR):
            first, second = (series.metric.get(label, "") for label in labels)
            values.setdefault((first, second), {})[name] = series.value[1]
    return values


def _read_models(url: str, hour: datetime) -> dict[tuple[str, str], list[int]]:
    """Model and tenant to successful requests, tokens in and tokens out of an hour."""
    usages: dict[tuple[str, str], list[int]] = {}
    for position, metric in ((0, _MODEL_REQUESTS), (1, _MODEL_TOKENS)):
        for labels, value in growth(url, metric, hour, seconds=TIMEOUT_SECONDS):
            use = usages.setdefault((labels.get("model", ""), labels.get("tenant", "")), [0, 0, 0])
            use[position + (labels.get("direction") == "out")] += round(value)
    return usages
