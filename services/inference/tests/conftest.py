"""Fixtures: the model server's environment, and servers of a model without a neural network."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strata.site.paths import REPOSITORY
from strata_bench.service_processes import Service
from strata_bench.services import locked_programs

from .words_server import PROGRAMS, AskClients, StartWords, serve_words

PROJECT = REPOSITORY / "services/inference/images/model-server"


@pytest.fixture(scope="session")
def model_python() -> Path:
    """Interpreter with model_server and the clients."""
    return locked_programs(PROJECT, "--no-dev", "--inexact", "--group", "clients") / "python"


@pytest.fixture(scope="session")
def ask_clients(model_python: Path) -> AskClients:
    """`ask_clients("generated", url, model)` → what unmodified clients read."""

    def ask(kind: str, url: str, model: str) -> dict[str, Any]:
        command = [str(model_python), str(PROGRAMS / "clients.py"), kind, url, model]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
        assert done.returncode == 0, done.stderr
        output: dict[str, Any] = json.loads(done.stdout)
        return output

    return ask


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """The file that the word `wait` waits for."""
    return tmp_path / "gate"


@pytest.fixture
def start_words(model_python: Path, gate: Path, tmp_path: Path) -> StartWords:
    """`with start_words(queue_size=4) as service:` on a free port."""
    return lambda **settings: serve_words(model_python, gate, tmp_path, settings)


@pytest.fixture(scope="session")
def words(model_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A server of words that no test breaks."""
    directory = tmp_path_factory.mktemp("words")
    with serve_words(model_python, directory / "gate", directory, {}) as service:
        yield service
