"""Faults of Prometheus itself: files of its pod, changed on its node, and its process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from strata.observe.metrics import metrics_of

from .alert_fault import NAME, Lab, Labels
from .questions import process_of
from .service_parts import METRICS, container_of

RULES = "kubernetes.io~configmap/rules"
SAMPLES = "kubernetes.io~empty-dir/samples"
UNPARSABLE = "groups: ["
FAILING = f"groups: [{{name: {NAME}, rules: [{{record: strata_alert, expr: up * on () up}}]}}]"
"""Many series on both sides, of which none may have more than one."""


def _of_pod(lab: Lab) -> tuple[str, str]:
    """Node of Prometheus' pod, and the directory of the pod there."""
    pod: dict[str, Any] = METRICS.pod(lab.kubectl)
    return pod["spec"]["nodeName"], f"/var/lib/kubelet/pods/{pod['metadata']['uid']}"


def _reload(lab: Lab) -> None:
    METRICS.signal(lab.kubectl, lab.host, "HUP")


@contextmanager
def _with_rules(lab: Lab, text: str) -> Iterator[None]:
    """One more file of rules, beside those of the config map, which the kubelet leaves alone."""
    node, directory = _of_pod(lab)
    file = f"{directory}/volumes/{RULES}/{NAME}.yaml"
    lab.sh(node, f"echo '{text}' >{file} && chmod 0644 {file}")
    try:
        _reload(lab)
        yield
    finally:
        lab.sh(node, f"rm -f {file}")
        _reload(lab)


def rejected_configuration(lab: Lab) -> Iterator[Labels]:
    """A file of rules that is not YAML."""
    with _with_rules(lab, UNPARSABLE):
        yield {"job": "prometheus"}


def failing_rules(lab: Lab) -> Iterator[Labels]:
    """A rule that Prometheus accepts and cannot evaluate."""
    with _with_rules(lab, FAILING):
        yield {"rule_group": f"/etc/prometheus/rules/{NAME}.yaml;{NAME}"}


def missing_targets(lab: Lab) -> Iterator[Labels]:
    """The job of the API server finds no target, as where the service account may not list endpoints."""
    node, directory = _of_pod(lab)
    # what the container has mounted; the kubelet replaces the volume's file, and not this one
    file, before = f"{directory}/volume-subpaths/configuration/prometheus/0", f"/run/{NAME}.yml"
    lab.sh(node, f"grep -q 'regex: kubernetes$' {file} && cp {file} {before}")
    try:
        lab.sh(node, f"sed 's/regex: kubernetes$/regex: none/' {before} >{file}")
        _reload(lab)
        yield {"job": "apiserver"}
    finally:
        lab.sh(node, f"cat {before} >{file} && rm {before}")
        _reload(lab)


def damaged_log(lab: Lab) -> Iterator[Labels]:
    """Prometheus is killed while it writes: what its write-ahead log ends with is not a record. No sample is lost."""
    source = metrics_of(lab.context)
    assert source is not None
    # what is scraped now may be written later
    kept = f"sum(count_over_time(up[10m] @ {time.time() - 30:.0f}))"
    (before,) = source.query(kept)
    node, directory = _of_pod(lab)
    log, process = f"{directory}/volumes/{SAMPLES}/wal", _process(lab)
    lab.sh(
        node,
        f"kill -STOP {process}; last=$(ls {log} | grep -x '[0-9]*' | tail -n 1); "
        f"printf '\\377%.0s' $(seq 64) >>{log}/$last; kill -KILL {process}",
    )
    yield {"job": "prometheus"}
    (after,) = source.query(kept)
    assert after.value == before.value


def _process(lab: Lab) -> int:
    """Of Prometheus, as its node sees it."""
    node, container = container_of(METRICS.pod(lab.kubectl), METRICS.container)
    return process_of(lambda *command: lab.sh(node, " ".join(command)), container)
