"""Load over the last day: from Prometheus' samples to the page."""

from __future__ import annotations

import html
from collections.abc import Callable

import pytest

from strata.access.kubectl import Unanswered
from strata.observe.metrics import Sample
from strata.report import build_report
from strata.report.load import FIGURES, load_of, load_report, query_text
from strata.report.model import LoadReport, UnknownLoad
from strata.report.page import render_page
from strata.site.context import SiteContext
from strata.site_file.inventories import find_site

CARD = {"node": "gpu-worker-1", "pci_bus_id": "0000:81:00.0", "modelName": "Tesla V100"}


def samples() -> list[Sample]:
    site = {"cpu": 2.0, "cpu_peak": 6.5, "cores": 8.0, "memory": 2**31, "memory_peak": 2**32, "memory_size": 2**34}
    card = {"card_utilization": 0.4, "card_allocated": 0.5, "card_energy": 2400.4, "card_simulated": 1}
    alert = {"figure": "alert", "alertname": "TargetDown", "severity": "warning", "job": "ml-<hub>"}
    return [
        *(Sample({"figure": name}, value) for name, value in site.items()),
        *(Sample({"figure": name, **CARD}, value) for name, value in card.items()),
        Sample(alert, 1),
    ]


def test_every_figure_is_shown() -> None:
    load = load_report(samples())
    assert load is not None
    page = render_page(build_report(SiteContext.load(find_site("lab")), offline=True, load=load))
    shown = " ".join(page.split())
    for text in ("2.0 cores (25%)", "6.5 cores", "2.0 GiB (12%)", "4.0 GiB", "50% of the time", "40%", "2400 Wh",
                 "Tesla V100 (simulated figures)", "TargetDown", "job=ml-&lt;hub&gt;"):  # fmt: skip
        assert text in shown, text
    assert {sample.labels["figure"] for sample in samples()} == set(FIGURES)
    assert query_text().count("label_replace(") == len(FIGURES)


def shown(load: LoadReport | UnknownLoad | None) -> str:
    page = render_page(build_report(SiteContext.load(find_site("lab")), offline=True, load=load))
    return " ".join(page.split())


def test_a_figure_that_was_not_measured_is_unknown() -> None:
    measured = [sample for sample in samples() if sample.labels["figure"] not in ("card_allocated", "card_energy")]
    page = shown(load_report(measured))
    assert '<td data-label="allocated">unknown</td>' in page
    assert '<td data-label="energy">unknown</td>' in page
    assert "0 Wh" not in page


def silent(_: object) -> None:
    raise Unanswered("kubectl exec: connection <refused>")


class Source:
    """A Prometheus that has just started."""

    def query(self, _: str) -> list[Sample]:
        return []


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (silent, "Prometheus does not respond: kubectl exec: connection <refused>"),
        (lambda _: None, "no pod of Prometheus runs"),
        (lambda _: Source(), "Prometheus has no samples of nodes yet"),
    ],
)
def test_load_and_alerts_are_unknown_while_prometheus_does_not_respond(
    source: Callable[[object], object], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata.report.load.metrics_of", source)
    load = load_of(SiteContext.load(find_site("lab")))
    assert load == UnknownLoad(reason=reason)
    page = shown(load)
    assert f"<p>Load and alerts are unknown: {html.escape(reason)}</p>" in page
    assert "No alert fires" not in page


def test_a_site_without_prometheus_has_no_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strata.report.load.metrics_server", lambda _: None)
    assert load_of(SiteContext.load(find_site("lab"))) is None
    assert "Load over the last day" not in shown(None)
