"""Each layer cold, warm and unchanged."""

from __future__ import annotations

from collections.abc import Iterator

from strata.errors import UserError
from strata_bench.breakdown import run_spans
from strata_bench.model import Bench, Measure
from strata_bench.site import LAYERS, bench_site, strata

WHAT = {
    "cold": "no site, tools and images in the cache",
    "warm": "after `strata down`",
    "unchanged": "everything in the desired state",
    "thorough": "everything in the desired state, every playbook run regardless",
}


def layers(bench: Bench) -> Iterator[Measure]:
    """Wall time of `strata up --layer` for each layer and state; the breakdown comes from the last cold and warm run.

    Raises:
        UserError: the site was named by the user, who has not allowed to stop it.
    """
    if bench.site_file is not None and not bench.allow_changes:
        raise UserError(
            "the benchmark `layers` destroys and stops its site",
            fix="leave --site out, and a lab of its own is made; or add --allow-changes",
        )
    samples: dict[tuple[str, str], list[float]] = {}

    def pass_over(run: int, state: str, *options: str) -> None:
        total = 0.0
        for layer in LAYERS:
            bench.progress.update(f"layers: {state}, {layer}, run {run + 1} of {bench.runs}")
            seconds = strata(file, "up", "--layer", layer, "--no-verify", *options).seconds
            samples.setdefault((state, layer), []).append(round(seconds, 2))
            total += seconds
            if run == bench.runs - 1 and state in ("cold", "warm"):
                bench.spans += run_spans(context, f"{state}: {layer}", seconds)
        samples.setdefault((state, "all layers one after the other"), []).append(round(total, 2))

    def measured() -> Iterator[Measure]:
        for (state, layer), seconds in samples.items():
            yield Measure(
                benchmark="layers", what=f"{state}: {layer}", unit="s", samples=tuple(seconds), note=WHAT[state]
            )

    def all_at_once(run: int, state: str) -> None:
        bench.progress.update(f"layers: {state}, all at once, run {run + 1} of {bench.runs}")
        seconds = strata(file, "up", "--no-verify").seconds
        samples.setdefault((state, "all layers at once"), []).append(round(seconds, 2))

    with bench_site(bench) as context:
        file = context.site_file
        try:
            for run in range(bench.runs):
                strata(file, "destroy", "--yes")
                pass_over(run, "cold")
                strata(file, "down")
                pass_over(run, "warm")
                pass_over(run, "unchanged")
                pass_over(run, "thorough", "--thorough")
                all_at_once(run, "unchanged")
                strata(file, "down")
                all_at_once(run, "warm")
        except (UserError, KeyboardInterrupt):
            yield from measured()  # what there is until then is worth having
            raise
    yield from measured()
