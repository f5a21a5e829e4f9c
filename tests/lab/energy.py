"""Energy of a site's accelerators: on the dashboard, and in accounting."""

from __future__ import annotations

import json
from collections.abc import Callable

from strata.catalogue.service import SYSTEM_NAMESPACE
from strata.observe.metrics import metrics_of
from strata.site.context import SiteContext
from strata.verify.waiting import settled
from strata_services.prometheus_server.grafana import expressions
from strata_services.prometheus_server.service import FOLDER

DASHBOARD = FOLDER / "dashboards" / "energy.json"
SECONDS = 120.0
THIS_HOUR = """
import json
from datetime import UTC, datetime, timedelta
from accounting.prometheus import record_hour
from accounting.settings import Settings
settings, begin = Settings(), datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
with settings.connect() as connection, connection.transaction(force_rollback=True):
    record_hour(connection, settings.prometheus_url.rstrip("/"), begin)
    query, window = "SELECT node, sum(kwh) FROM energy(%s, %s) GROUP BY node", (begin, begin + timedelta(hours=1))
    print(json.dumps(dict(connection.execute(query, window).fetchall())))
"""
"""Records the hour that has begun, as the collector does when it is full, and takes it back."""


def energy_is_measured(context: SiteContext, kubectl: Callable[..., str]) -> None:
    """After a pod has held a card for some scrapes: each panel of the dashboard has a value above zero, that of pods
    with a card too, and accounting has energy of each node with measured cards.

    Args:
        context: of a site with accounting.
        kubectl: of the operator.
    """
    source = metrics_of(context)
    if source is None or not (nodes := {s.labels["node"] for s in source.query("accelerator:energy:joules")}):
        return
    panels = list(expressions(DASHBOARD))
    # one query: each starts a process in Prometheus' pod
    query = " or ".join(
        f'label_replace(count(({expression}) > 0), "panel", "{number}", "", "")'
        for number, expression in enumerate(panels)
    )
    samples = settled(lambda: source.query(query), lambda samples: len(samples) == len(panels), SECONDS, pause=2)
    full = {sample.labels["panel"] for sample in samples}
    assert not [text for number, text in enumerate(panels) if str(number) not in full]
    collector = (f"--namespace={SYSTEM_NAMESPACE}", "deployment/accounting", "--container=collect")
    kwh = json.loads(kubectl("exec", *collector, "--", "python3", "-c", THIS_HOUR))
    assert {node for node, energy in kwh.items() if energy > 0} >= nodes, kwh
