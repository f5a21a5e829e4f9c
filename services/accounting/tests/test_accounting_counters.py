"""The growth of counters from the real Prometheus: exact, however a series begins, ends and begins again."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import requests

from strata_bench.prometheus import prometheus_binaries, runner
from strata_bench.services import free_port, service_python
from strata_bench.waiting import eventually

HOUR = 1_795_856_400
"""2026-11-28, 09:00 UTC."""
SCRAPE = 30
LONG_AGO = HOUR - 30 * 86400
Samples = Sequence[tuple[int, int]]
PROGRAM = """
import datetime, json, sys
from accounting.counters import growth
at = datetime.datetime.fromtimestamp(float(sys.argv[2]), datetime.UTC)
grown = growth(sys.argv[1], sys.argv[3], at, seconds=20)
print(json.dumps({labels["pod"]: value for labels, value in grown}))
"""
CLIENT = """
import sys, time
from prometheus_client import Counter, start_http_server
Counter("live", "Counted before anyone looks.", ["pod"]).labels("client").inc(5)
start_http_server(int(sys.argv[1]), "127.0.0.1")
time.sleep(3600)
"""


def scraped(begin: int, end: int, value: Callable[[int], int] | int) -> Samples:
    """A sample each 30 s, at seconds that are not those of the hour."""
    return [(at, value if isinstance(value, int) else value(at)) for at in range(begin + 13, end, SCRAPE)]


def tokens(at: int) -> int:
    """37 each 100 s, as requests come."""
    return 37 * ((at - HOUR + 7200) // 100)


SERIES: dict[str, tuple[int, Samples]] = {
    # pod: when its series was made, and its samples
    "steady": (HOUR - 7200, scraped(HOUR - 7200, HOUR + 10800, tokens)),
    # its first sample is not 0: it was asked before Prometheus saw it
    "new": (HOUR + 3700, scraped(HOUR + 3700, HOUR + 10800, 1104)),
    # made in the last seconds of an hour, and seen in the next one
    "late": (HOUR + 3595, scraped(HOUR + 3600, HOUR + 5000, 9)),
    # Prometheus has lost what was before
    "old": (LONG_AGO, scraped(HOUR + 4000, HOUR + 10800, lambda at: 50_000 + (5 if at > HOUR + 5000 else 0))),
    # its process begins again with the same labels
    "restarted": (
        HOUR - 3600,
        [*scraped(HOUR - 3600, HOUR + 5000, 20), *scraped(HOUR + 5000, HOUR + 7200, 8)],
    ),
    "ended": (HOUR - 3600, [*scraped(HOUR - 3600, HOUR, 0), *scraped(HOUR, HOUR + 1800, 11)]),
    # Prometheus was down for hours; the process was not
    "unseen": (
        HOUR - 7200,
        [*scraped(HOUR - 7200, HOUR + 600, 100), *scraped(HOUR + 8000, HOUR + 10800, 160)],
    ),
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that has stored these samples."""
    binaries, directory = prometheus_binaries(), tmp_path_factory.mktemp("prometheus")
    lines = ["# TYPE tokens counter"]
    lines += [
        f'tokens_total{{pod="{pod}"}} {value} {at}' for pod, (_, samples) in SERIES.items() for at, value in samples
    ]
    lines += ["# TYPE tokens_created gauge"]
    lines += [
        f'tokens_created{{pod="{pod}"}} {made} {at}' for pod, (made, samples) in SERIES.items() for at, _ in samples
    ]
    (text := directory / "samples.txt").write_text("\n".join([*lines, "# EOF", ""]))
    live = f"127.0.0.1:{free_port()}"
    scrape = {"job_name": "live", "scrape_interval": "1s", "static_configs": [{"targets": [live]}]}
    (configuration := directory / "prometheus.yml").write_text(json.dumps({"scrape_configs": [scrape]}))
    done = runner(binaries / "promtool")("tsdb", "create-blocks-from", "openmetrics", text, directory / "data")
    assert done.returncode == 0, done.stderr
    address = f"http://127.0.0.1:{free_port()}"
    command = [
        str(binaries / "prometheus"), f"--config.file={configuration}", f"--storage.tsdb.path={directory / 'data'}",
        "--storage.tsdb.retention.time=100y", f"--web.listen-address={address.removeprefix('http://')}",
    ]  # fmt: skip
    client = [str(service_python("accounting")), "-c", CLIENT, live.rpartition(":")[2]]
    with (
        (directory / "log").open("w") as log,
        subprocess.Popen(client) as counting,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            eventually(
                lambda: _ready(address),
                120,
                "Prometheus is ready",
                hopeless=lambda: None if process.poll() is None else (directory / "log").read_text(),
            )
            yield address
        finally:
            process.terminate()
            counting.terminate()


def _ready(url: str) -> bool:
    try:
        return requests.get(f"{url}/-/ready", timeout=5).ok
    except requests.ConnectionError:
        return False


def growth(url: str, hour: int, metric: str = "tokens") -> dict[str, float]:
    """By pod, without those that did not grow."""
    command = [str(service_python("accounting")), "-c", PROGRAM, url, str(HOUR + hour * 3600), metric]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    by_pod: dict[str, Any] = json.loads(done.stdout)
    return {pod: value for pod, value in by_pod.items() if value}


def test_each_hour_has_what_was_counted_in_it(url: str) -> None:
    hours = [growth(url, hour) for hour in (0, 1, 2)]
    steady = dict(SERIES["steady"][1])
    ends = [steady[max(at for at in steady if at <= HOUR + hour * 3600)] for hour in range(4)]
    assert [hour.pop("steady") for hour in hours] == [ends[1] - ends[0], ends[2] - ends[1], ends[3] - ends[2]]
    assert hours == [{"ended": 11}, {"new": 1104, "late": 9, "old": 5, "restarted": 8}, {"unseen": 60}]
    # the result of `increase` is not what was counted
    asked = {"query": "sum(increase(tokens_total[1h]))", "time": str(HOUR + 7200)}
    answer = requests.get(f"{url}/api/v1/query", params=asked, timeout=60).json()
    assert float(answer["data"]["result"][0]["value"][1]) != ends[2] - ends[1] + 1104 + 9 + 5 + 8


def test_the_first_value_of_a_new_counter_counts(url: str) -> None:
    """Of prometheus_client, which publishes when a series was made."""

    def counted() -> float:
        hour = int((time.time() - HOUR) // 3600)
        return sum(growth(url, begin, "live").get("client", 0) for begin in (hour - 1, hour))

    eventually(lambda: counted() > 0, 120, "the counter is scraped")
    assert counted() == 5


def test_a_series_of_before_and_one_that_is_named_are_found(url: str) -> None:
    assert growth(url, 5) == {}, "nothing was scraped"
    assert growth(url, 1, 'tokens{pod=~"ne.|late"}') == {"new": 1104, "late": 9}
