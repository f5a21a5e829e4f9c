"""Builds the report from the site file, the observation, and the records of earlier runs in the state directory."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

from strata.catalogue.published import published
from strata.drift_model import DriftReport
from strata.layers import Layer
from strata.observe import Observation, nothing_seen, observe
from strata.observe.facts import NOT_UP
from strata.observe.hosts import host_roles
from strata.observe.status import ObjectStatus, advice, memory_notes, site_status
from strata.report.locations import places
from strata.report.model import (
    AddressReport,
    ImageReport,
    LayerReport,
    LoadReport,
    RunTime,
    SiteReport,
    State,
    StepTime,
    ToolReport,
    UnknownLoad,
)
from strata.site.context import SiteContext
from strata.site.outputs import ClusterOutputs
from strata.site.paths import REPOSITORY
from strata.toolchain import report
from strata.verify.record import last_verified

SHOWN_RUNS = 10
"""Runs that a report remembers."""

WHAT = {
    Layer.CLOUD: "OpenStack: hypervisors, flavors, networks, instances",
    Layer.HOSTS: "on hosts: storage, databases, registry, load balancer",
    Layer.CLUSTER: "Kubernetes: control plane, nodes, accelerators",
    Layer.PLATFORM: "Helm releases: tenants and services",
}


def build_report(
    context: SiteContext,
    *,
    offline: bool = False,
    drift: DriftReport | None = None,
    observation: Observation | None = None,
    load: LoadReport | UnknownLoad | None = None,
) -> SiteReport:
    """The report of a site, running or not.

    Args:
        context: the site.
        offline: query nothing; the report shows what is planned.
        drift: None if it was not checked.
        observation: what was seen; None to look now.
        load: over the last day; None if it was not queried.
    """
    seen = observation or (nothing_seen(context) if offline else observe(context))
    up = not offline and was_up(context, seen)
    objects = tuple(site_status(context, seen))
    unhealthy = [o for o in objects if not o.healthy]
    layers = tuple(_layer(layer, objects, seen, up=up) for layer in Layer if any(o.layer == layer for o in objects))
    return SiteReport(
        site=context.site.name,
        domain=context.site.domain,
        file=_file(context.site_file),
        generated=datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        seconds=seen.seconds + (drift.seconds if drift else 0.0),
        state=_whole(layers, drift),
        layers=layers,
        places=places(context, seen, up=up),
        objects=objects,
        remedy=advice(context, unhealthy) if unhealthy else "",
        notes=memory_notes(seen),
        drift=drift,
        load=load,
        addresses=_addresses(context),
        tools=_tools(),
        images=_images(context),
        runs=last_runs(context),
        verified=last_verified(context.paths),
    )


def _file(file: Path) -> str:
    """Seen from the repository where it is in it: a report may be handed on."""
    return str(file.relative_to(REPOSITORY)) if file.is_relative_to(REPOSITORY) else str(file)


def was_up(context: SiteContext, seen: Observation) -> bool:
    """Whether the site was ever brought up: a layer left its outputs, or one answers."""
    answers = [seen.cloud.reason, seen.cluster.reason, *(h.reason for h in seen.hosts.values())]
    return context.cloud_outputs is not None or (context.paths.root / "runs.jsonl").exists() or None in answers


def _layer(layer: Layer, objects: tuple[ObjectStatus, ...], seen: Observation, *, up: bool) -> LayerReport:
    own = [o for o in objects if o.layer == layer]
    healthy = sum(o.healthy for o in own)
    reasons = {Layer.CLOUD: seen.cloud.reason, Layer.CLUSTER: seen.cluster.reason, Layer.PLATFORM: seen.platform.reason}
    if not up:
        state = State.PLANNED
    elif healthy == len(own):
        state = State.GOOD
    else:
        state = State.PARTIAL if healthy else State.DOWN
    return LayerReport(
        layer=layer,
        what=WHAT[layer],
        state=state,
        healthy=healthy,
        objects=len(own),
        reason=None if reasons.get(layer) == NOT_UP and not up else reasons.get(layer),
    )


def _whole(layers: tuple[LayerReport, ...], drift: DriftReport | None) -> State:
    states = {layer.state for layer in layers}
    if len(states) > 1 or (drift is not None and not drift.clean):
        return State.PARTIAL
    return next(iter(states), State.GOOD)


def _addresses(context: SiteContext) -> tuple[AddressReport, ...]:
    site = context.site
    addresses: list[AddressReport] = []
    addresses += [AddressReport(name=name, address=url) for name, url in context.provider.endpoints().items()]
    if cluster := ClusterOutputs.load(context.paths):
        addresses.append(AddressReport(name="Kubernetes", address=cluster.api_endpoint))
    addresses += [AddressReport(name=s.key.replace("_", "-"), address=s.url) for s in published(site)]
    if any("registry" in roles for roles in _roles(context)):
        addresses.append(AddressReport(name="registry", address=f"https://registry.{site.domain}:5000/v2/"))
    return tuple(addresses)


def _roles(context: SiteContext) -> list[tuple[str, ...]]:
    return list(host_roles(context).values())


def _tools() -> tuple[ToolReport, ...]:
    return tuple(ToolReport(name=t.name, version=t.version, source=t.source, sha256=t.sha256) for t in report())


def _images(context: SiteContext) -> tuple[ImageReport, ...]:
    outputs = context.image_outputs
    images = sorted(outputs.images.items()) if outputs else ()
    return tuple(ImageReport(name=n, repository=i.repository, digest=i.digest) for n, i in images)


def last_runs(context: SiteContext, count: int = SHOWN_RUNS) -> tuple[RunTime, ...]:
    """The last runs of `strata up`, the newest first; a line that an interrupted run left incomplete is skipped."""
    file = context.paths.root / "runs.jsonl"
    runs: list[RunTime] = []
    for line in reversed(file.read_text().splitlines() if file.exists() else []):
        try:
            entry = json.loads(line)
            steps = tuple(
                StepTime(
                    name=s["name"],
                    layer=s["layer"],
                    state=s["state"],
                    started=s.get("started"),
                    seconds=s["seconds"],
                    changed=s.get("changed", 0),
                )
                for s in entry["steps"]
            )
            runs.append(RunTime(ended=entry["ended"], seconds=entry["seconds"], changed=entry["changed"], steps=steps))
        except (ValueError, KeyError, TypeError):
            continue
        if len(runs) == count:
            break
    return tuple(runs)
