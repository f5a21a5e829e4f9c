"""What a pod's container uses, as the site's Prometheus has measured it."""

from __future__ import annotations

import asyncio
import functools
import math
from concurrent.futures import ThreadPoolExecutor

from pydantic import BaseModel, Field

from pods.objects import object_name
from strata_http.prometheus import NoAnswer, Series, query, quoted

LONGEST_SECONDS = 3600
TIMEOUT_SECONDS = 5.0
AT_ONCE = 4
"""Queries of one process; others wait for their turn, and no longer than they would for Prometheus."""
MEBIBYTE = 2**20
_SERIES = {
    "cpu": "namespace_pod:cpu_usage:rate5m",
    "memory": "namespace_pod:memory_working_set:bytes",
    "gpu_utilization": "DCGM_FI_DEV_GPU_UTIL",
    "gpu_memory": "DCGM_FI_DEV_FB_USED",
}
_OVER = {"newest": "{0}", "mean": "avg_over_time({0}[{1}s])", "maximum": "max_over_time({0}[{1}s])"}


class Measure(BaseModel):
    """Values over the time that the response covers; null where there is none."""

    newest: float | None = None
    mean: float | None = None
    maximum: float | None = None


class GpuMeasures(BaseModel):
    """Of one GPU."""

    uuid: str
    model: str
    utilization: Measure = Field(default_factory=Measure, description="Percent.")
    memory: Measure = Field(default_factory=Measure, description="Bytes.")


class Measures(BaseModel):
    """Of a pod."""

    seconds: int = Field(description="That mean and maximum cover: of the run, at most the last hour.")
    cpu: Measure = Field(default_factory=Measure, description="Cores, each value the mean of 5 minutes.")
    memory: Measure = Field(default_factory=Measure, description="Bytes.")
    gpus: list[GpuMeasures] = Field(default_factory=list)


def expression(tenant: str, pod_id: str, seconds: int) -> str:
    """All measures of a pod as one vector; the labels `measure` and `over` identify each."""
    selector = f"{{namespace={quoted(tenant)}, pod={quoted(object_name(pod_id))}}}"
    parts = []
    for measure, series in _SERIES.items():
        for over, function in _OVER.items():
            value = f"max by (UUID, modelName) ({function.format(series + selector, seconds)})"
            for label, name in (("measure", measure), ("over", over)):
                value = f'label_replace({value}, "{label}", "{name}", "", "")'
            parts.append(value)
    return " or ".join(parts)


def read(all_series: list[Series], seconds: int) -> Measures:
    """What Prometheus answers to the expression."""
    result, gpus = Measures(seconds=seconds), dict[str, GpuMeasures]()
    for series in all_series:
        labels, value = series.metric, series.value[1]
        measure, uuid = labels["measure"], labels.get("UUID", "")
        if not math.isfinite(value):
            continue
        if measure in ("cpu", "memory"):
            target: Measure = getattr(result, measure)
        else:
            gpu = gpus.setdefault(uuid, GpuMeasures(uuid=uuid, model=labels.get("modelName", "")))
            target = gpu.memory if measure == "gpu_memory" else gpu.utilization
            value *= MEBIBYTE if measure == "gpu_memory" else 1
        setattr(target, labels["over"], value)
    result.gpus = [gpu for _, gpu in sorted(gpus.items())]
    return result


class MeasureReader:
    """Asks for the API.

    Args:
        url: of Prometheus; empty where the site has none.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._threads = ThreadPoolExecutor(AT_ONCE, "measures")

    async def read(self, tenant: str, pod_id: str, seconds: int) -> Measures:
        """Measures of the last seconds of a pod, which the caller has looked up.

        Raises:
            NoAnswer.
        """
        asked = functools.partial(query, self.url, expression(tenant, pod_id, seconds), seconds=TIMEOUT_SECONDS)
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                all_series = await asyncio.get_running_loop().run_in_executor(self._threads, asked)
        except TimeoutError:
            raise NoAnswer(f"Prometheus {self.url}: no answer within {TIMEOUT_SECONDS:g} s") from None
        return read(all_series, seconds)
