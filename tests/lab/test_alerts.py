"""Alerts are provoked on the running lab: the expression returns the faulty series while a fault lasts, and none before
and after. What an alert waits (`for`) is not waited out; windows are shortened."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pytest

from strata.models.site import Site
from strata.observe.metrics import MetricsSource, metrics_of
from strata.site.context import SiteContext
from strata.troubleshooting import entries
from strata_bench.waiting import eventually
from strata_services.prometheus_server.alerts import RUNBOOK, alerts, examples
from strata_services.prometheus_server.service import PORT, SERVICE, rule_files

from .alert_fault import Fault, Lab, lasting
from .alert_faults import FAULTS, NOT_PROVOKED
from .lab_site import require_lab

if TYPE_CHECKING:
    from testinfra.host import Host

SECONDS = 240.0
HEALED_SECONDS = 420.0
"""A window of minutes, and the start of what was stopped, on a machine with two cores."""
HELD = {"namespace", "pod", "container"}
"""Labels of a card while a pod has it."""
ALERTS = alerts()


def test_each_alert_is_provoked_or_has_a_reason() -> None:
    assert FAULTS.keys() | NOT_PROVOKED.keys() == ALERTS.keys()
    assert not FAULTS.keys() & NOT_PROVOKED.keys()


@pytest.fixture(scope="module")
def lab(site: Site, context: SiteContext, kubectl: Callable[..., str], site_host: Callable[[str], Host]) -> Lab:
    """Other sites are not ours to break."""
    require_lab(context)
    if SERVICE.of(site) is None:
        pytest.skip(f"site {site.name} has no platform.services.{SERVICE.key}")
    return Lab(context, kubectl, site_host)


@pytest.fixture(scope="module")
def source(lab: Lab) -> MetricsSource:
    """The lab's Prometheus."""
    metrics = metrics_of(lab.context)
    assert metrics is not None
    return metrics


@pytest.mark.nightly
def test_prometheus_has_each_alert_with_its_runbook(lab: Lab, source: MetricsSource) -> None:
    """Read from its node, whose probes reach it."""
    pod = json.loads(lab.kubectl("get", source.pod, "--namespace=monitoring", "--output=json"))
    url = f"http://{pod['status']['podIP']}:{PORT}/api/v1/rules?type=alert"
    answer = json.loads(lab.sh(pod["spec"]["nodeName"], f"curl -sS --fail --max-time 20 '{url}'"))
    rules = {rule["name"]: rule for group in answer["data"]["groups"] for rule in group["rules"]}
    expected = {
        name for name in ALERTS if any(f"alert: {name}\n" in text for text in rule_files(lab.context.site).values())
    }
    assert rules.keys() == expected
    assert len(expected) > 30
    runbooks = {entry.link for entry in entries()}
    for name, rule in rules.items():
        assert rule["health"] == "ok", (name, rule.get("lastError"))
        assert rule["annotations"][RUNBOOK] == ALERTS[name].runbook
        assert rule["annotations"][RUNBOOK] in runbooks


@pytest.mark.nightly
def test_examples_have_names_and_labels_of_live_series(lab: Lab, source: MetricsSource) -> None:
    """So that an alert that fires in its example fires on a site too."""
    given = {
        (series.partition("{")[0], frozenset(re.findall(r"([A-Za-z_]+)=\"", series)))
        for name, example in examples().items()
        if any(f"alert: {name}\n" in text for text in rule_files(lab.context.site).values())
        for series in example.series
    }
    names = {name for name, _ in given}
    live = [
        (name, set(sample.labels)) for name in sorted(names) for sample in source.query(f"last_over_time({name}[6h])")
    ]
    wrong = [
        f"{name}: {', '.join(sorted(labels))}"
        for name, labels in sorted(given, key=str)
        if name in names and not any(name == other and labels <= present | held(name) for other, present in live)
    ]
    assert not wrong, "\n".join(wrong)


def held(name: str) -> set[str]:
    return HELD if name.startswith("DCGM_") else set()


@pytest.mark.nightly
@pytest.mark.parametrize("name", list(FAULTS))
def test_alert(name: str, lab: Lab, source: MetricsSource) -> None:
    fault, expression = FAULTS[name], ALERTS[name].expression
    expression = re.sub(r"(\[|offset )\d+[mh]", rf"\g<1>{fault.window}", expression)

    def returned(expression: str, labels: Mapping[str, str]) -> bool:
        return any(labels.items() <= sample.labels.items() for sample in source.query(expression))

    faulty, before = shortened(fault, expression), source.query(expression)
    with lasting(fault.breaking, lab) as labels:
        assert not [sample.labels for sample in before if labels.items() <= sample.labels.items()]
        eventually(lambda: returned(faulty, labels), SECONDS, f"{name} is returned with {dict(labels)}")
    eventually(lambda: not returned(expression, labels), HEALED_SECONDS, f"{name} is no longer returned")


def shortened(fault: Fault, expression: str) -> str:
    """The expression with the threshold that provokes it."""
    if fault.replace is None:
        return expression
    before, after = fault.replace
    assert before in expression
    return expression.replace(before, after)
