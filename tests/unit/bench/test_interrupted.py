"""A benchmark that gets SIGTERM removes its lab."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from strata_bench.waiting import eventually

PROGRAM = """
import sys
from pathlib import Path

from strata_bench import __main__ as program, site
from strata_bench.catalogue import BENCHMARKS, Benchmark
from strata_bench.command import Outcome, measure

log = Path(sys.argv[1])

def tell(file, command, *options):
    with log.open("a") as stream:
        stream.write(f"{command} {' '.join(options)}\\n")
    if command == "up":
        # what an interrupted run must not leave: a command of a command
        measure("bash", "-c", f"echo $$ > {log}.pid; sleep 60; true")
    return Outcome(0, 0, 0)

site.write_site = lambda directory: directory / "site.yaml"
site.strata = tell
BENCHMARKS.clear()
BENCHMARKS["pods"] = Benchmark("pods", "Pods", "what", "cloud", lambda bench: iter(()))
sys.argv[1:] = ["pods"]
program.main()
"""


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, *(pytest.param(other, marks=pytest.mark.nightly) for other in (signal.SIGTERM, signal.SIGHUP))],
)
def test_a_signal_ends_the_command_and_destroys_the_lab(number: signal.Signals, tmp_path: Path) -> None:
    log = tmp_path / "log"
    pid_file = Path(f"{log}.pid")
    # a shell's job in the background, as CI may be, hands down that it ignores SIGINT
    line = ["env", "--default-signal=INT", sys.executable, "-c", PROGRAM, str(log)]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        stderr = process.stderr
        eventually(
            lambda: pid_file.read_text().strip(), 120, "the command runs", pause=0.05,
            hopeless=lambda: None if process.poll() is None else stderr.read(),
        )  # fmt: skip
        child = Path("/proc") / pid_file.read_text().strip()
        assert child.exists()
        process.send_signal(number)
        status = process.wait(120)
        said = process.stderr.read()
    assert log.read_text().splitlines() == ["up --layer cloud --no-verify", "destroy --yes"], said
    eventually(lambda: not child.exists(), 60, "init has reaped the command's own command")
    assert status == (128 + number if number != signal.SIGINT else 130), said
    assert "Traceback" not in said
