"""The service's queries, judged by the real promtool on series as cAdvisor and DCGM's exporter make them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from strata_bench.prometheus import Run, prometheus_binaries, runner
from strata_bench.services import service_python

EXPRESSIONS = """
import json
from pods import idle, measures
from pods.spec import Resources
chosen = Resources(gpus=2, gpu_minimum_utilization=10, gpu_idle_seconds=600)
print(json.dumps({"idle": idle.expression("teaching", "gpu1", chosen),
                  "two": " or ".join(idle.expression("teaching", name, chosen) for name in ("gpu1", "gpu2")),
                  "measures": measures.expression("research", "web1", 90)}))
"""


@pytest.fixture(scope="module")
def expressions() -> dict[str, str]:
    done = subprocess.run(
        [service_python("tapis-pods"), "-c", EXPRESSIONS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    queries: dict[str, str] = json.loads(done.stdout)
    return queries


@pytest.fixture(scope="module")
def promtool() -> Run:
    return runner(prometheus_binaries() / "promtool")


def judged(
    promtool: Run, directory: Path, expression: str, series: dict[str, str], at: str, expected: dict[str, float]
) -> None:
    """The expression has these values, and no others."""
    samples = [{"labels": labels, "value": value} for labels, value in expected.items()]
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": expression, "eval_time": at, "exp_samples": samples}],
    }
    file = directory / "test.yaml"
    file.write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": [test]}))
    done = promtool("test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def gpu(uuid: str, pod: str = "pods-gpu1") -> str:
    labels = f'UUID="{uuid}", modelName="Tesla V100", namespace="teaching", pod="{pod}", container="main"'
    return f"DCGM_FI_DEV_GPU_UTIL{{{labels}}}"


FOUND = '{namespace="teaching", pod="pods-gpu1"}'


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        ({gpu("a"): "0x30", gpu("b"): "3x30"}, {FOUND: 3}),
        # one of them worked
        ({gpu("a"): "0x14 95 0x15", gpu("b"): "3x30"}, {FOUND: 95}),
        # before the time that counts
        ({gpu("a"): "95x5 0x25", gpu("b"): "3x30"}, {FOUND: 3}),
        # one of two was not measured, or not all the time
        ({gpu("a"): "0x30"}, {}),
        ({gpu("a"): "0x30", gpu("b"): "3x8 _x11 3x10"}, {}),
        ({gpu("a"): "0x30", gpu("b"): "_x14 3x16"}, {}),
        # nothing any more
        ({gpu("a"): "0x5 stale", gpu("b"): "0x5 stale"}, {}),
        # another pod's
        ({gpu("a"): "0x30", gpu("b", "pods-other"): "0x30"}, {}),
    ],
)
def test_idle_is_what_was_measured_all_the_time(
    promtool: Run, expressions: dict[str, str], tmp_path: Path, series: dict[str, str], expected: dict[str, float]
) -> None:
    judged(promtool, tmp_path, expressions["idle"], series, "20m", expected)


def test_one_query_is_for_many_pods(promtool: Run, expressions: dict[str, str], tmp_path: Path) -> None:
    series = {gpu(f"{pod}{n}", pod): f"{n}x30" for pod in ("pods-gpu1", "pods-gpu2") for n in (1, 2)}
    expected = {f'{{namespace="teaching", pod="{pod}"}}': 2.0 for pod in ("pods-gpu1", "pods-gpu2")}
    judged(promtool, tmp_path, expressions["two"], series, "20m", expected)


def test_measures_are_named(promtool: Run, expressions: dict[str, str], tmp_path: Path) -> None:
    own = 'namespace="research", pod="pods-web1"'
    card = f'UUID="GPU-a", modelName="Tesla V100", {own}, container="main"'
    series = {
        f"namespace_pod:cpu_usage:rate5m{{{own}}}": "9 1 2",
        f"namespace_pod:memory_working_set:bytes{{{own}}}": "900 100 300",
        'namespace_pod:cpu_usage:rate5m{namespace="teaching", pod="pods-web1"}': "7 7 7",
        f"DCGM_FI_DEV_GPU_UTIL{{{card}}}": "99 10 30",
        f"DCGM_FI_DEV_FB_USED{{{card}}}": "99 6 4",
    }
    labels = 'UUID="GPU-a", modelName="Tesla V100", '
    values = {
        ("", "cpu"): (2, 1.5, 2), ("", "memory"): (300, 200, 300),
        (labels, "gpu_utilization"): (30, 20, 30), (labels, "gpu_memory"): (4, 5, 6),
    }  # fmt: skip
    expected = {
        f'{{{prefix}measure="{measure}", over="{over}"}}': float(value)
        for (prefix, measure), three in values.items()
        for over, value in zip(("newest", "mean", "maximum"), three, strict=True)
    }
    judged(promtool, tmp_path, expressions["measures"], series, "2m", expected)
