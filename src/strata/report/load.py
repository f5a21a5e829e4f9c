"""Load of a site and its accelerators over the last day, and the alerts that fire, from the site's Prometheus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from strata.access.kubectl import Unanswered
from strata.catalogue.site_services import metrics_server
from strata.observe.metrics import Sample, metrics_of
from strata.report.model import AlertReport, CardLoad, LoadReport, UnknownLoad
from strata.site.context import SiteContext

DAY = "[1d:5m]"
CARD = "node, pci_bus_id, modelName"
FIGURES: Mapping[str, str] = {
    "cpu": f"avg_over_time(site:cpu_usage:rate5m{DAY})",
    "cpu_peak": f"max_over_time(site:cpu_usage:rate5m{DAY})",
    "cores": "site:cpu_cores:count",
    "memory": f"avg_over_time(site:memory_working_set:bytes{DAY})",
    "memory_peak": f"max_over_time(site:memory_working_set:bytes{DAY})",
    "memory_size": "site:memory:bytes",
    "card_utilization": f"avg_over_time((max by ({CARD}) (accelerator:utilization:ratio)){DAY})",
    "card_allocated": f"avg_over_time((max by ({CARD}) (accelerator:allocated:bool)){DAY})",
    "card_energy": "increase(accelerator:energy:joules[1d]) / 3600",
    "card_simulated": f'group by ({CARD}) (DCGM_FI_DEV_GPU_UTIL{{strata_simulated="true"}})',
    "alert": 'ALERTS{alertstate="firing"}',
}
"""One query has them all: each is a process in Prometheus' pod."""


def query_text() -> str:
    """The figures as one expression; the label `figure` identifies them."""
    return " or ".join(f'label_replace({text}, "figure", "{name}", "", "")' for name, text in FIGURES.items())


def load_of(context: SiteContext) -> LoadReport | UnknownLoad | None:
    """The load; None where the site has no Prometheus."""
    if metrics_server(context.site) is None:
        return None
    try:
        source = metrics_of(context)
        if source is None:
            return UnknownLoad(reason="no pod of Prometheus runs")
        return load_report(source.query(query_text())) or UnknownLoad(reason="Prometheus has no samples of nodes yet")
    except Unanswered as error:
        return UnknownLoad(reason=f"Prometheus does not respond: {error}")


def load_report(samples: list[Sample]) -> LoadReport | None:
    """The load from the samples of `query_text`; None where there are none of the site yet."""
    figures: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        figures[sample.labels["figure"]].append(sample)
    site = {name: series[0].value for name, series in figures.items() if not name.startswith(("card", "alert"))}
    if not {"cpu", "cores", "memory", "memory_size"} <= site.keys():
        return None

    def cards(name: str) -> dict[tuple[str, ...], float]:
        return {tuple(s.labels.get(key, "") for key in CARD.split(", ")): s.value for s in figures[name]}

    utilization, allocated, energy = cards("card_utilization"), cards("card_allocated"), cards("card_energy")
    simulated = cards("card_simulated")
    return LoadReport(
        cores=site["cores"],
        cpu_mean=site["cpu"],
        cpu_peak=site.get("cpu_peak", site["cpu"]),
        memory=site["memory_size"],
        memory_mean=site["memory"],
        memory_peak=site.get("memory_peak", site["memory"]),
        cards=tuple(
            CardLoad(
                node=key[0],
                address=key[1],
                model=key[2],
                utilization=utilization[key],
                allocated=allocated.get(key),
                energy=energy.get(key),
                simulated=key in simulated,
            )
            for key in sorted(utilization)
        ),
        alerts=tuple(
            AlertReport(
                name=s.labels["alertname"],
                severity=s.labels.get("severity", ""),
                about=", ".join(
                    f"{key}={value}"
                    for key, value in sorted(s.labels.items())
                    if key not in ("__name__", "alertname", "alertstate", "figure", "severity", "site")
                ),
            )
            for s in figures["alert"]
        ),
    )
