"""How much a counter has grown in an hour, without the extrapolation of PromQL's `increase`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from strata_http.prometheus import Samples, Series, query, samples

LOOK_BACK = "7d"
"""For the last sample before the hour: Prometheus may have been down."""
FIRST_SAMPLE = timedelta(minutes=5)
"""Within which a new series is scraped."""


def growth(url: str, metric: str, hour: datetime, *, seconds: float) -> list[tuple[dict[str, str], float]]:
    """The growth of each series of a counter of prometheus_client: the differences of its samples.

    Args:
        url: of Prometheus.
        metric: its name without `_total`, with matchers or without: `tokens` or `tokens{model="x"}`.
        hour: its begin.
        seconds: for each query.

    Returns:
        Labels, and the growth.

    Raises:
        NoAnswer.
    """
    name, brace, matchers = metric.partition("{")
    selector, end = f"{name}_total{brace}{matchers}", hour + timedelta(hours=1)
    current = samples(url, f"{selector}[1h]", seconds=seconds, at=end)
    if not current:
        return []
    before = _by_labels(query(url, f"last_over_time({selector}[{LOOK_BACK}])", seconds=seconds, at=hour))
    made = f"last_over_time({name}_created{brace}{matchers}[1h])"
    created = _by_labels(query(url, made, seconds=seconds, at=end))
    new = (hour - FIRST_SAMPLE).timestamp()
    return [
        (_labels(series.metric), _growth(series, before.get(_key(series)), is_new=created.get(_key(series), 0) >= new))
        for series in current
    ]


def _growth(series: Samples, before: float | None, *, is_new: bool) -> float:
    """The sum of the differences; a counter that falls has begun again from 0.

    Args:
        series: samples of the hour.
        before: the last value before it.
        is_new: whether the series began at 0 in the hour; of another one without an earlier sample, nobody knows how
            much it had grown.
    """
    last = before if before is not None else 0.0 if is_new else series.values[0][1]
    total = 0.0
    for _, value in series.values:
        total += value - last if value >= last else value
        last = value
    return total


def _by_labels(all_series: Iterable[Series]) -> dict[frozenset[tuple[str, str]], float]:
    return {_key(series): series.value[1] for series in all_series}


def _key(series: Series | Samples) -> frozenset[tuple[str, str]]:
    return frozenset(_labels(series.metric).items())


def _labels(metric: dict[str, str]) -> dict[str, str]:
    return {label: value for label, value in metric.items() if label != "__name__"}
