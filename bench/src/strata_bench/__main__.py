"""The command line of `scripts/bench`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from strata.cli.main import run
from strata.errors import UserError
from strata.site_file.inventories import find_site
from strata_bench.breakdown import tree
from strata_bench.catalogue import BENCHMARKS
from strata_bench.document import write
from strata_bench.machine import describe
from strata_bench.model import Bench, Measure, Results, Span
from strata_bench.site import LAYERS, bench_site
from strata_bench.terminal import Lines, ending_in_order

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
)


@app.command()
def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Benchmarks to run; see --list.")
    ] = None,
    list_them: Annotated[bool, typer.Option("--list", help="List the benchmarks.")] = False,
    runs: Annotated[int, typer.Option("--runs", "-n", min=1, help="Number of measurements.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Write docs/benchmarks.md and its picture.")] = False,
    save: Annotated[Path | None, typer.Option("--save", help="Also store the results as JSON in this file.")] = None,
    add: Annotated[
        list[Path] | None, typer.Option("--add", help="Include earlier results that --save stored. Repeatable.")
    ] = None,
    site: Annotated[
        str | None, typer.Option("--site", help="Measure on this running site instead of a temporary lab.")
    ] = None,
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Allow that site to be stopped, destroyed and re-created.")
    ] = False,
) -> None:
    """Run benchmarks: minimum, median and maximum of several runs, and where the time is spent.

    Without a NAME and without --add, runs all benchmarks that need no site. The others
    create a temporary lab with free networks and destroy it; each takes many minutes.
    """
    if list_them:
        table = Table("name", "what", "needs", box=None)
        for benchmark in BENCHMARKS.values():
            table.add_row(
                benchmark.name, benchmark.what, "nothing" if benchmark.needs == "nothing" else "a temporary lab"
            )
        Console().print(table)
        return
    if unknown := [name for name in names or [] if name not in BENCHMARKS]:
        raise UserError(f"there is no benchmark {', '.join(unknown)}", fix=f"one of {', '.join(BENCHMARKS)}")
    earlier = [_load(file) for file in add or []]
    chosen = names or ([] if earlier else [b.name for b in BENCHMARKS.values() if b.needs == "nothing"])
    machines = [r.machine for r in earlier] + ([describe()] if chosen or not earlier else [])
    # of results from several runs, the busiest moment is shown
    results = Results(machine=max(machines, key=lambda m: m.load_before))
    measures: list[Measure] = [m for r in earlier for m in r.measures]
    spans: list[Span] = [s for r in earlier for s in r.spans]
    progress = Lines()
    before = os.environ.get("STRATA_STATE_DIR")
    with ending_in_order(), ExitStack() as stack:
        stack.callback(progress.stop)
        named = find_site(site) if site else _shared_site(chosen, progress, stack)
        allowed = allow_changes or site is None
        for name in (n for n in BENCHMARKS if n in chosen):
            with tempfile.TemporaryDirectory(prefix="strata-bench-") as directory:
                options = Bench(runs, progress, Path(directory), named, allowed)
                try:
                    for measured in BENCHMARKS[name].run(options):
                        measures.append(measured)
                        if not as_json:
                            _show(progress, measured)
                finally:
                    _restore(before)
                    spans += options.spans
                    results = results.model_copy(update={"measures": tuple(measures), "spans": tuple(spans)})
                    if save:  # after each, so that an interruption costs one and not all
                        save.write_text(results.model_dump_json(indent=1) + "\n")
    results = results.model_copy(update={"measures": tuple(measures), "spans": tuple(spans)})
    if as_json:
        print(results.model_dump_json(indent=1))
    elif chosen:
        _print(results)
    if markdown:
        for file in write(results):
            Console(stderr=True).print(f"wrote {file}", highlight=False)


def _shared_site(chosen: Sequence[str], progress: Lines, stack: ExitStack) -> Path | None:
    """One lab for all benchmarks that need one, as high as the highest needs it, destroyed at the end; None where none
    does."""
    needs = {BENCHMARKS[name].needs for name in chosen} - {"nothing"}
    if not needs:
        return None
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="strata-bench-")))
    # `layers` comes first and leaves it up
    up = None if "site" in needs else max(needs, key=LAYERS.index)
    return stack.enter_context(bench_site(Bench(1, progress, directory), up=up)).site_file


def _restore(state: str | None) -> None:
    if state is None:
        os.environ.pop("STRATA_STATE_DIR", None)
    else:
        os.environ["STRATA_STATE_DIR"] = state


def _load(file: Path) -> Results:
    try:
        return Results.model_validate_json(file.read_text())
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"benchmark: {file}: {reason}", fix="name a file that `scripts/bench --save` wrote") from None


def _show(progress: Lines, measure: Measure) -> None:
    progress.update(f"{measure.benchmark}: {measure.what}: median {measure.median:.2f} {measure.unit}")


def _print(results: Results) -> None:
    console = Console()
    machine = results.machine
    console.print(
        f"{machine.processor}, {machine.processors} cores, {machine.memory_gib} GiB, {machine.system}, "
        f"kernel {machine.kernel}, load before {machine.load_before}",
        highlight=False,
        soft_wrap=True,
    )
    table = Table("benchmark", "what", "minimum", "median", "95 %", "maximum", "runs", box=None)
    for m in results.measures:
        values = (m.minimum, m.median, m.percentile_95, m.maximum)
        figures = ("–" if v is None else f"{v:.2f} {m.unit}" for v in values)
        table.add_row(m.benchmark, m.what, *figures, str(len(m.samples)))
    console.print(table, highlight=False)
    for span in results.spans:
        console.print("")
        for line in tree(span):
            console.print(line, markup=False, highlight=False, soft_wrap=True)


def main() -> None:
    """Entry point; errors as of strata."""
    run(app, "interrupted; --save keeps finished benchmarks, --add takes them in")


if __name__ == "__main__":
    main()
