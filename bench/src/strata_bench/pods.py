"""How long pods take from the request to Ready."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from typing import Any

from strata.access.kubectl import Unanswered, kubectl
from strata.errors import UserError
from strata.site.context import SiteContext
from strata_bench.model import Bench, Measure
from strata_bench.site import bench_site

COUNTS = (10, 100)
LIMIT_SECONDS = 600.0


def pods(bench: Bench) -> Iterator[Measure]:
    """10 and 100 pods of one Deployment until all are Ready, and until they are gone; they do nothing but sleep.

    Raises:
        UserError: they were not Ready within ten minutes.
    """
    with bench_site(bench, up="cluster") as context:
        outputs = context.image_outputs
        if outputs is None:
            raise UserError("benchmark: the site has no images", fix="bring its cluster layer up first")
        namespace = f"bench-{secrets.token_hex(3)}"
        _kubectl(context, "create", "namespace", namespace)
        try:
            for count in COUNTS:
                ready, gone = [], []
                for run in range(bench.runs):
                    bench.progress.update(f"pods: {count}, run {run + 1} of {bench.runs}")
                    begin = time.monotonic()
                    _kubectl(
                        context,
                        "apply",
                        "-n",
                        namespace,
                        "-f",
                        "-",
                        input=_deployment(str(outputs.images["pod-base"]), count),
                    )
                    _wait(context, namespace, count, begin)
                    ready.append(round(time.monotonic() - begin, 2))
                    begin = time.monotonic()
                    _kubectl(context, "delete", "-n", namespace, "deployment", "bench")
                    _wait(context, namespace, 0, begin)
                    gone.append(round(time.monotonic() - begin, 2))
                yield Measure(benchmark="pods", what=f"{count} pods to Ready", unit="s", samples=tuple(ready))
                yield Measure(benchmark="pods", what=f"{count} pods deleted", unit="s", samples=tuple(gone))
        finally:
            _kubectl(context, "delete", "namespace", namespace)


def _deployment(image: str, replicas: int) -> str:
    labels = {"app": "bench"}
    container = {"name": "sleep", "image": image, "command": ["sleep", "infinity"]}
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    return json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "bench"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
    )


def _kubectl(context: SiteContext, *arguments: str, input: str | None = None) -> str:
    try:
        return kubectl(context, *arguments, text=input, seconds=LIMIT_SECONDS)
    except Unanswered as error:
        raise UserError(f"benchmark: kubectl {arguments[0]}: {error}", fix="`strata status` of the site") from None


def _wait(context: SiteContext, namespace: str, count: int, begin: float) -> None:
    """Until exactly so many pods are there and Ready."""
    template = '{range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}'
    while True:
        states = _kubectl(context, "get", "pods", "-n", namespace, "-o", f"jsonpath={template}").split("\n")[:-1]
        if len(states) == count and all(s == "True" for s in states):
            return
        if time.monotonic() - begin > LIMIT_SECONDS:
            raise UserError(
                f"benchmark: {states.count('True')} of {count} pods are Ready after {LIMIT_SECONDS:.0f} s",
                fix=f"`kubectl get pods,events -n {namespace}`",
            )
        time.sleep(0.2)
