"""An inference server of the tests: its states and answers, in the real one's shapes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from strata_bench.https_server import answer_json, in_background

PATH = "/v3/ml-hub/inference"
Answer = tuple[int, object]
"""Status and body."""


def envelope(status: int, message: str, result: object = None) -> Answer:
    """Tapis' envelope."""
    word = "success" if status == 200 else "error"
    return status, {"message": message, "metadata": {}, "result": result, "status": word, "version": "3"}


@dataclass
class FakeInference:
    """What it answers, and what it was asked.

    Args:
        url: where it responds, once it is started.
        states: by id of a model, fields of its state.
        answers: by prompt; every other prompt comes back in capitals.
        asked: method, path, token and body of each request.
    """

    url: str = ""
    states: dict[str, dict[str, Any]] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[tuple[str, str, str, Any]] = field(default_factory=list)

    def prompts(self) -> list[tuple[str, str]]:
        """Path and prompt of each question."""
        return [(path, body["prompt"]) for method, path, _, body in self.asked if method == "POST"]


@contextmanager
def running_inference(fake: FakeInference) -> Iterator[FakeInference]:
    """Serves it on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: Any) -> None:
            fake.asked.append((self.command, self.path, self.headers.get("X-Tapis-Token", ""), body))
            if body is None:
                models = [
                    {"model_id": name, "reason": "", "accelerator": "cpu", "idle_seconds": 600.0, **state}
                    for name, state in fake.states.items()
                ]
                result = {"pipeline_tag": "text2text-generation", "available_models": [*fake.states], "models": models}
                answer_json(self, *envelope(200, "models are available", result))
                return
            prompt = body["prompt"]
            answer_json(self, *fake.answers.get(prompt, envelope(200, "answered", prompt.upper())))

        def log_message(self, format: str, *arguments: object) -> None:
            """Logs nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake.url = f"http://127.0.0.1:{server.server_port}"
    with in_background(server):
        yield fake
