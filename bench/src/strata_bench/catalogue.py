"""All benchmarks by name."""

from __future__ import annotations

from functools import partial

from strata_bench.instances import instances
from strata_bench.layers import layers
from strata_bench.model import Benchmark
from strata_bench.offline import COMMANDS, offline
from strata_bench.pods import pods

SIZES = "for sites of 10, 100, 1,000 and 5,000 nodes, with peak memory"
OFFLINE = {
    "validate": f"`strata validate` {SIZES}",
    "plan": f"`strata plan --offline` {SIZES}",
    "inventory": f"`ansible-inventory` {SIZES}",
    "report": f"`strata report --offline` {SIZES}",
}
assert OFFLINE.keys() == COMMANDS.keys()

BENCHMARKS: dict[str, Benchmark] = {
    b.name: b
    for b in (
        *(Benchmark(name, what, "nothing", partial(offline, name)) for name, what in OFFLINE.items()),
        Benchmark("layers", "each layer cold, warm and unchanged, and where its time goes", "site", layers),
        Benchmark("instances", "1, 10 and 50 instances until they answer on SSH", "cloud", instances),
        Benchmark("pods", "10 and 100 pods until they are Ready", "cluster", pods),
    )
}
"""In the order in which they are run."""
