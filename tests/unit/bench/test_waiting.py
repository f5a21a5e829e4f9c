"""A wait that was in vain states what it waited for, what it saw last, and how loaded the machine is."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata_bench.services import free_port
from strata_bench.waiting import eventually, responds


def test_it_asks_until_the_answer_is_true() -> None:
    answers: Iterator[object] = iter([0, ValueError("not there yet"), "", 42])

    def ask() -> object:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    eventually(ask, 60, "an answer", pause=0)
    assert next(answers, None) is None


def test_a_wait_in_vain_shows_what_it_saw() -> None:
    words = r"not within 0 s \(load [0-9.]+ on \d+ processors\): the port is open; last seen: \[\]"
    with pytest.raises(AssertionError, match=words):
        eventually(list, 0, "the port is open")
    with pytest.raises(AssertionError, match="the port is open: ZeroDivisionError: division by zero"):
        eventually(lambda: 1 / 0, 0, "the port is open")


def test_no_one_waits_for_what_cannot_come() -> None:
    with pytest.raises(AssertionError, match=r"^the port is open: the server has ended; last seen: False$"):
        eventually(lambda: False, 3600, "the port is open", hopeless=lambda: "the server has ended")


def test_a_server_that_ended_is_reported_with_its_output(tmp_path: Path) -> None:
    log, url = tmp_path / "log", f"http://127.0.0.1:{free_port()}/"
    with log.open("wb") as output:
        program = "import sys; print('no such database'); sys.exit(3)"
        process = subprocess.Popen([sys.executable, "-c", program], stdout=output)
    process.wait()
    with pytest.raises(AssertionError, match=re.escape(f"{url} answers: the process ended with 3")) as failure:
        responds(url, process, log, seconds=3600)
    assert str(failure.value).count("no such database") == 1
