"""Servers of the model without a neural network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from strata_bench.service_processes import Service, running
from strata_bench.services import free_port

PROGRAMS = Path(__file__).parent / "programs"
"""What runs in the model server's environment or image, not in that of the tests."""
SERVE = (
    "from model_server.litserve_transport import serve; from model_server.settings import Settings; "
    "from words_model import load; serve(Settings(), load)"
)

StartWords = Callable[..., AbstractContextManager[Service]]
AskClients = Callable[..., dict[str, Any]]


def serve_words(
    python: Path, gate: Path, directory: Path, settings: Mapping[str, object]
) -> AbstractContextManager[Service]:
    """A server of words."""
    port = free_port()
    environment = {f"MODEL_SERVER_{key.upper()}": str(value) for key, value in settings.items()}
    environment |= {"MODEL_SERVER_PORT": str(port), **words_environment(gate)}
    return running(python, ["-c", SERVE], environment, port, directory)


def words_environment(gate: Path) -> dict[str, str]:
    """Of a server of words."""
    return {"MODEL_SERVER_MODEL": "words", "PYTHONPATH": str(PROGRAMS), "GATE": str(gate)}
