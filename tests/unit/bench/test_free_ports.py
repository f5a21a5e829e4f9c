"""A port that one process was given is given to no other one, although nobody listens on it yet."""

from __future__ import annotations

import subprocess
import sys

import pytest

from strata_bench import services
from strata_bench.services import free_port, free_ports

OTHER = """
import sys
from strata_bench import services

services.PORTS = range(int(sys.argv[1]), int(sys.argv[1]) + 2)
print(services.free_port(), flush=True)
sys.stdin.read()
"""


def test_the_port_of_another_process_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    first = free_ports(2)
    for port in (first, first + 1):
        services._claims.pop(port).close()
    line = [sys.executable, "-c", OTHER, str(first)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        taken = int(process.stdout.readline())
        assert taken in {first, first + 1}
        monkeypatch.setattr(services, "PORTS", range(first, first + 2))
        assert free_port() == 2 * first + 1 - taken
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0
        monkeypatch.setattr(services, "PORTS", range(taken, taken + 1))
        assert free_port() == taken, "it is free again once that process has ended"


def test_ports_in_a_row_are_all_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    first = free_ports(3)
    monkeypatch.setattr(services, "PORTS", range(first, first + 4))
    assert free_port() == first + 3
