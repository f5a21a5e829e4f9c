"""docs/benchmarks.md and its picture, from the results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from strata.site.paths import REPOSITORY
from strata_bench.breakdown import tree
from strata_bench.catalogue import BENCHMARKS
from strata_bench.flame import flame
from strata_bench.layers import WHAT
from strata_bench.model import Measure, Results
from strata_bench.site import LAYERS

DOCUMENT = REPOSITORY / "docs" / "benchmarks.md"
PICTURE = "images/benchmarks.svg"
FLOOR = Path(__file__).parent / "floor.md"
"""What people wrote about the figures; put into the document as it is."""
SHARED_LOAD = 0.5
"""Above this load before the start, others were at work on the machine."""


def markdown(results: Results) -> str:
    """The document."""
    return "\n".join(_lines(results)) + "\n"


def _lines(results: Results) -> Iterator[str]:
    machine = results.machine
    yield "# Benchmarks"
    yield ""
    yield "Written by `scripts/bench --markdown`; do not edit. `scripts/bench --list` shows what can be measured."
    yield ""
    yield "| machine | |"
    yield "|---|---|"
    yield f"| processor | {machine.processor}, {machine.processors} cores |"
    yield f"| memory | {machine.memory_gib} GiB |"
    yield f"| system | {machine.system}, kernel {machine.kernel} |"
    yield f"| date, commit | {machine.date}, {machine.commit} |"
    yield f"| load before the start | {machine.load_before} |"
    if machine.load_before > SHARED_LOAD:
        yield ""
        yield (
            f"**The machine was shared**: {machine.load_before:.0f} processes needed its {machine.processors} cores "
            "when this began, so wall times are upper bounds, and their spread is mostly the others'. "
            "Processor time and memory are a command's own."
        )
    if missing := _missing(results):
        yield ""
        yield f"Not measured this time: {', '.join(missing)}."
    for name in dict.fromkeys(m.benchmark for m in results.measures):
        yield ""
        yield f"## {BENCHMARKS[name].title if name in BENCHMARKS else name}"
        yield ""
        yield from _table([m for m in results.measures if m.benchmark == name])
    if FLOOR.exists():
        yield ""
        yield FLOOR.read_text().strip()
    if results.spans:
        yield ""
        yield "## Where the time goes"
        yield ""
        yield f"![each run as a flame graph]({PICTURE})"
        for span in results.spans:
            yield ""
            yield f"### {span.name}".rstrip()
            yield ""
            yield "```text"
            yield from tree(span, least=0.02)
            yield "```"


def _missing(results: Results) -> list[str]:
    """What `scripts/bench` can measure and these results have not."""
    there = {m.benchmark for m in results.measures}
    missing = [f"`{name}`" for name in BENCHMARKS if name not in there]
    if "layers" in there:
        done = {m.what for m in results.measures if m.benchmark == "layers"}
        for state in WHAT:
            layers = [layer for layer in LAYERS if f"{state}: {layer}" not in done]
            if layers:
                missing.append(f"layers {state}" + ("" if len(layers) == len(LAYERS) else f" ({', '.join(layers)})"))
    return missing


def _table(measures: list[Measure]) -> Iterator[str]:
    several = any(m.percentile_95 is not None for m in measures)
    yield f"| what | minimum | median | {'95 % | ' if several else ''}maximum | runs |"
    yield "|---|---:|---:|---:|---:|" + "---:|" * several
    for m in measures:
        values = (m.minimum, m.median, *((m.percentile_95,) if several else ()), m.maximum)
        figures = " | ".join("–" if v is None else f"{_figure(v)} {m.unit}" for v in values)
        yield f"| {m.what} | {figures} | {len(m.samples)} |"
    notes = dict.fromkeys(f"{m.what.partition(':')[0]}: {m.note}" for m in measures if m.note)
    if notes:
        yield ""
        yield "; ".join(notes) + "."


def _figure(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def write(results: Results, file: Path = DOCUMENT) -> list[Path]:
    """Writes the document and its picture; returns their paths."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(markdown(results))
    written = [file]
    if results.spans:
        picture = file.parent / PICTURE
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_text(flame(results.spans))
        written.append(picture)
    return written
