"""Asks every layer at once what has drifted."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable, Iterable

from strata.access.kubectl import Unanswered
from strata.drift.cloud import objects_drift as cloud_objects_drift
from strata.drift.cluster import cluster_drift
from strata.drift.hosts import hosts_drift
from strata.drift.platform import objects_drift
from strata.drift.programs import program_drift
from strata.drift_model import Drift, DriftReport
from strata.errors import UserError
from strata.layers import Layer
from strata.lifecycle import CloudLifecycle
from strata.site.context import SiteContext


def find_drift(context: SiteContext, lifecycle: CloudLifecycle, layers: Iterable[Layer] = tuple(Layer)) -> DriftReport:
    """Everything that `up` would repair.

    Args:
        context: the site.
        lifecycle: of its cloud.
        layers: those to look at.

    Returns:
        Drift by layer. A layer that cannot be asked is reported, not raised.
    """
    begin = time.monotonic()
    chosen = list(layers)
    playbooks = [playbook for playbook in context.playbooks.values() if playbook.layer in chosen]
    searches: list[tuple[Layer, Callable[[], list[Drift]]]] = [(Layer.HOSTS, lambda: hosts_drift(context, playbooks))]
    if Layer.CLOUD in chosen and context.site.cloud is not None:
        searches.append((Layer.CLOUD, lambda: program_drift(context, "cloud")))
        searches.append((Layer.CLOUD, lambda: cloud_objects_drift(context)))
        searches.append((Layer.CLOUD, lifecycle.drift))
    if Layer.CLUSTER in chosen and context.site.cluster is not None:
        searches.append((Layer.CLUSTER, lambda: cluster_drift(context)))
    if Layer.PLATFORM in chosen and context.site.cluster is not None:
        searches += [
            (Layer.PLATFORM, lambda: program_drift(context, "platform")),
            (Layer.PLATFORM, lambda: objects_drift(context)),
        ]
    drift: list[Drift] = []
    unreachable: dict[Layer, str] = {}
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(searches)) as pool:
        futures = [(layer, pool.submit(search)) for layer, search in searches]
        for layer, future in futures:
            try:
                drift += future.result()
            except UserError as error:
                unreachable[layer] = error.message.splitlines()[0]
            except Unanswered as error:
                unreachable[layer] = str(error)
    order = list(Layer)
    drift.sort(key=lambda d: (order.index(d.layer), d.object, d.property))
    return DriftReport(drift=tuple(drift), unreachable=unreachable, seconds=time.monotonic() - begin)
