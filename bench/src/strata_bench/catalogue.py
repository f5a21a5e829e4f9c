"""All benchmarks by name."""

from __future__ import annotations

from functools import partial

from strata.service_modules import benchmark_modules
from strata_bench.instances import instances
from strata_bench.layers import layers
from strata_bench.model import Benchmark
from strata_bench.offline import COMMANDS, offline
from strata_bench.pods import pods

SIZES = "for sites of 10, 100, 1,000 and 5,000 nodes, with peak memory"
OFFLINE = {
    "validate": ("Reading a site (`strata validate`)", f"`strata validate` {SIZES}"),
    "plan": ("Planning a site (`strata plan --offline`)", f"`strata plan --offline` {SIZES}"),
    "inventory": ("Ansible's inventory of a site", f"`ansible-inventory` {SIZES}"),
    "report": ("The page of a site (`strata report --offline`)", f"`strata report --offline` {SIZES}"),
}
assert OFFLINE.keys() == COMMANDS.keys()

BENCHMARKS: dict[str, Benchmark] = {
    b.name: b
    for b in (
        *(Benchmark(name, title, what, "nothing", partial(offline, name)) for name, (title, what) in OFFLINE.items()),
        Benchmark(
            "layers",
            "Layers (`strata up --layer`)",
            "each layer cold, warm and unchanged, and where its time goes",
            "site",
            layers,
        ),
        Benchmark("instances", "Instances", "1, 10 and 50 instances until they answer on SSH", "cloud", instances),
        Benchmark("pods", "Pods", "10 and 100 pods until they are Ready", "cluster", pods),
        *(benchmark for module in benchmark_modules() for benchmark in module.BENCHMARKS),
    )
}
"""In the order in which they are run."""
