"""What the benchmarks measure, and how they tell it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from strata.errors import UserError
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site
from strata.timeline import Part as TimelinePart
from strata.timeline import Parts, file_of
from strata_bench import offline, site
from strata_bench.breakdown import run_spans, tree
from strata_bench.catalogue import BENCHMARKS
from strata_bench.command import measure
from strata_bench.document import markdown, write
from strata_bench.flame import flame
from strata_bench.large_site import large_site
from strata_bench.machine import describe, running
from strata_bench.model import Bench, Machine, Measure, Results, Span

MACHINE = Machine(
    processor="a processor", processors=2, memory_gib=23.5, kernel="6.1", system="Debian", date="2026-01-01",
    commit="abc", load_before=0.1,
)  # fmt: skip
SPAN = Span(
    name="cold: hosts",
    started=0,
    seconds=10,
    inner=(
        Span(name="hosts", started=1, seconds=8, inner=(Span(name="<nfs & kine>", started=2, seconds=4),)),
        Span(name="tools", started=1, seconds=0.05),
    ),
)


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "strata_bench", *arguments], capture_output=True, text=True, check=False
    )


def test_minimum_median_and_maximum() -> None:
    measure = Measure(benchmark="b", what="w", unit="s", samples=(3.0, 1.0, 2.0, 10.0))
    assert (measure.minimum, measure.median, measure.maximum) == (1.0, 2.5, 10.0)


def test_percentile_of_many_samples_only() -> None:
    measure = Measure(benchmark="b", what="w", unit="ms", samples=tuple(map(float, range(1, 201))))
    assert measure.percentile_95 == 190.0
    few = measure.model_copy(update={"samples": measure.samples[:99], "what": "few"})
    assert few.percentile_95 is None
    lines = markdown(Results(machine=MACHINE, measures=(measure, few))).splitlines()
    assert "| what | minimum | median | 95 % | maximum | runs |" in lines
    assert "| w | 1.00 ms | 100 ms | 190 ms | 200 ms | 200 |" in lines
    assert "| few | 1.00 ms | 50.0 ms | – | 99.0 ms | 99 |" in lines


def test_time_and_memory_are_the_commands_own() -> None:
    ballast = bytearray(150 << 20)  # memory of the one who measures must not count
    small = measure(sys.executable, "-I", "-S", "-c", "import time; time.sleep(0.3)")
    large = measure(sys.executable, "-I", "-S", "-c", "x = b'1' * (80 << 20)")
    assert len(ballast) > 0
    assert small.seconds >= 0.3
    assert small.processor_seconds < small.seconds, "it slept"
    assert small.peak_mib < 60
    assert 80 <= large.peak_mib < 140


def test_a_command_that_fails_is_reported() -> None:
    with pytest.raises(UserError, match="ended with 3: bad news"):
        measure(sys.executable, "-c", "print('bad news'); raise SystemExit(3)")


@pytest.mark.parametrize("nodes", [10, 100])
def test_large_sites_are_valid(nodes: int, tmp_path: Path) -> None:
    loaded = load_site(large_site(nodes, tmp_path))
    assert loaded.cloud is not None
    assert len(loaded.cloud.instances) == nodes


def test_each_size_is_measured(state_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "SIZES", (10,))
    for name in offline.COMMANDS:
        seconds, processor, memory = offline.offline(name, Bench(1, Silent(), tmp_path))
        assert 0 < processor.median <= 2 * seconds.median
        assert seconds.median > 0
        assert memory.unit == "MiB"
        assert memory.median > 10


def test_a_site_to_measure_on_has_networks_of_its_own_and_room(state_directory: Path, tmp_path: Path) -> None:
    lab, loaded = load_site(find_site("lab")), load_site(site.write_site(tmp_path, instances=60))
    assert lab.cloud is not None
    assert loaded.cloud is not None
    assert loaded.cloud.control_network != lab.cloud.control_network
    assert loaded.cloud.networks[0].cidr != lab.cloud.networks[0].cidr
    assert loaded.cloud.networks[0].allocation_pool.size >= 60
    assert loaded.cloud.project.quota is not None
    assert loaded.cloud.project.quota.instances == 60
    assert loaded.cloud.hypervisors[0].vcpus == 240
    assert loaded.name.startswith("bench-")


def test_a_users_site_is_not_stopped_unasked(tmp_path: Path) -> None:
    asked = Bench(1, Silent(), tmp_path, site_file=find_site("lab"))
    with pytest.raises(UserError, match="destroys and stops its site"):
        list(BENCHMARKS["layers"].run(asked))


def test_a_run_is_taken_apart(context: SiteContext) -> None:
    steps = [
        {"name": "hosts", "layer": "hosts", "state": "done", "seconds": 10.0, "started": 2.0},
        {"name": "keys", "layer": "cloud", "state": "done", "seconds": 0.5, "started": 0.0},
    ]
    entry = {"ended": "2026-01-01T00:00:12+0000", "seconds": 12.0, "changed": 0, "steps": steps}
    (context.paths.root / "runs.jsonl").write_text(json.dumps(entry) + "\n")
    began = 1767225600.0 + 4  # 2026-01-01T00:00:04Z
    parts = Parts(began=began, seconds=8.0, parts=(TimelinePart(name="base : one", started=1.0, seconds=5.0),))
    file_of(context.paths.logs, "hosts").write_text(parts.model_dump_json())
    (whole,) = run_spans(context, "warm: hosts", 13.0)
    assert [s.name for s in whole.inner] == ["keys", "hosts", "start of strata itself"]
    (task,) = whole.inner[1].inner
    assert (task.name, task.started, task.seconds) == ("base : one", 5.0, 5.0), "two seconds of SSH came before"
    old = parts.model_copy(update={"began": began - 3600})
    file_of(context.paths.logs, "hosts").write_text(old.model_dump_json())
    assert run_spans(context, "warm: hosts", 13.0)[0].inner[1].inner == (), "an earlier run's parts are not this one's"


def test_the_tree_shows_what_matters() -> None:
    assert tree(SPAN, least=0.02) == [
        "   10.00 s  cold: hosts",
        "      8.00 s  hosts",
        "        4.00 s  <nfs & kine>",
    ]


def test_the_picture_is_xml_and_escaped() -> None:
    root = ET.fromstring(flame([SPAN]))  # noqa: S314  # our own text
    titles = [e.text for e in root.iter("{http://www.w3.org/2000/svg}title")]
    assert "<nfs & kine> 4.0 s" in titles


def test_the_document_shows_on_what_and_that_it_was_shared(tmp_path: Path) -> None:
    measures = (Measure(benchmark="pods", what="10 pods to Ready", unit="s", samples=(1.0, 2.0, 3.0)),)
    text = markdown(Results(machine=MACHINE, measures=measures, spans=(SPAN,)))
    assert "| processor | a processor, 2 cores |" in text
    assert "| 10 pods to Ready | 1.00 s | 2.00 s | 3.00 s | 3 |" in text
    assert "was shared" not in text
    assert "Not measured this time: `validate`" in text
    busy = Results(machine=MACHINE.model_copy(update={"load_before": 3.0}), spans=(SPAN,))
    assert "was shared" in markdown(busy)
    written = write(busy, tmp_path / "docs" / "benchmarks.md")
    assert [f.name for f in written] == ["benchmarks.md", "benchmarks.svg"]


def test_this_machine_is_described() -> None:
    description = describe()
    assert description.processors >= 1
    assert description.memory_gib > 0
    assert description.processor


def test_the_command_line_lists_and_refuses(tmp_path: Path) -> None:
    listed = bench("--list")
    assert all(name in listed.stdout for name in BENCHMARKS)
    wrong = bench("layer")
    assert wrong.returncode == 2
    assert "there is no benchmark layer" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_results_can_be_kept_and_put_together(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    measures = (Measure(benchmark="pods", what="10 pods to Ready", unit="s", samples=(1.0,)),)
    kept.write_text(Results(machine=MACHINE, measures=measures).model_dump_json())
    done = bench("--add", str(kept), "--json")
    assert done.returncode == 0, done.stderr
    assert Results.model_validate_json(io.StringIO(done.stdout).read()).measures == measures


def test_load_is_that_of_others(tmp_path: Path) -> None:
    statistics_file = tmp_path / "stat"
    statistics_file.write_text("cpu  1 2 3\nprocs_running 4\nprocs_blocked 0\n")
    assert running(0, statistics_file) == 3
    statistics_file.write_text("procs_running 1\n")
    assert running(0, statistics_file) == 0
