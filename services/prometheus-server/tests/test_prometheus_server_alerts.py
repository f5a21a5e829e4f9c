"""The alerts of all services: each has a runbook, and an example that the real promtool judges."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.service_modules import SERVICES
from strata.troubleshooting import entries
from strata_services.prometheus_server.alerts import ALERT, RUNBOOK, alerts, examples, with_runbooks

Run = Callable[..., subprocess.CompletedProcess[str]]
ALERTS = alerts()
EXAMPLES = examples()
FOLDERS = sorted({alert.folder for alert in ALERTS.values()})


def test_each_alert_has_an_example_in_its_service() -> None:
    assert {name: alert.folder.name for name, alert in ALERTS.items()} == {
        name: example.folder.name for name, example in EXAMPLES.items()
    }
    assert len(ALERTS) == sum(
        "alert" in rule
        for file in SERVICES.glob("*/rules/*.yaml")
        for group in yaml.safe_load(file.read_text())["groups"]
        for rule in group["rules"]
    ), "two alerts have one name"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_alerts_fire_when_they_should(folder: Path, promtool: Run, tmp_path: Path) -> None:
    done = promtool("test", "rules", promtool_file(folder, tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_alert_that_does_not_fire_is_found(promtool: Run, tmp_path: Path) -> None:
    file = promtool_file(SERVICES / "keycloak", tmp_path)
    (rules,) = tmp_path.glob("alerts.yaml")
    rules.write_text(rules.read_text().replace('container="keycloak"', 'container="other"'))
    assert promtool("test", "rules", file).returncode != 0


def promtool_file(folder: Path, directory: Path) -> Path:
    """The examples of a service in the form of `promtool test rules`, its rules as Prometheus gets them beside it."""
    rules = [file.name for file in sorted((folder / "rules").glob("*.yaml"))]
    for name in rules:
        (directory / name).write_text(with_runbooks((folder / "rules" / name).read_text()))
    tests: list[dict[str, Any]] = []
    for name, example in EXAMPLES.items():
        if example.folder != folder:
            continue
        fired = {
            "exp_labels": dict(example.labels),
            "exp_annotations": {"summary": example.summary, RUNBOOK: ALERTS[name].runbook},
        }
        for title, series, expected in (
            (f"{name} fires", example.fires, [fired]),
            *((f"{name} is silent: {case.because}", case.series, []) for case in example.silent),
        ):
            judged = {"eval_time": example.at, "alertname": name, "exp_alerts": expected}
            given = [{"series": example.whole(key), "values": values} for key, values in series.items()]
            tests.append({"name": title, "interval": "1m", "input_series": given, "alert_rule_test": [judged]})
    file = directory / "examples.yaml"
    file.write_text(yaml.safe_dump({"rule_files": rules, "evaluation_interval": "1m", "tests": tests}))
    return file


def test_alerts_and_runbooks_match() -> None:
    titles = {entry.title.removeprefix(ALERT) for entry in entries() if entry.title.startswith(ALERT)}
    assert titles == set(ALERTS)
    assert {alert.runbook for alert in ALERTS.values()} <= {entry.link for entry in entries()}
