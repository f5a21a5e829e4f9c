"""A Hugging Face hub of the tests: what its API and its files answer, in the real one's shapes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from strata_bench.https_server import in_background

MODEL = "google/flan-t5-large"
DATASET = "openai/gsm8k"
SHA = "0613663d0d48ea86ba8cb3d7a44f0f65dc596a2a"
DATASET_SHA = "e53f048856ff4f594e959d75785d2c2d37b678ee"
CARD = "---\nlanguage: [en]\nlicense: apache-2.0\n---\n\n# FLAN-T5 large\n\nInstruct it.\n"
FILES = [".gitattributes", "README.md", "config.json", "model.safetensors", "onnx/decoder model.onnx"]
INFO = {
    "_id": "6346ca43d7b1cdbe5b5db1ac", "id": MODEL, "modelId": MODEL, "author": "google", "sha": SHA,
    "lastModified": "2023-07-17T12:49:05.000Z", "createdAt": "2022-10-21T10:07:08.000Z", "private": False,
    "gated": False, "disabled": False, "downloads": 1, "likes": 1, "pipeline_tag": "text2text-generation",
    "library_name": "transformers", "tags": ["transformers", "t5", "license:apache-2.0"],
    "cardData": {"language": ["en"], "license": "apache-2.0", "widget": None},
    "config": {"architectures": ["T5ForConditionalGeneration"], "model_type": "t5"}, "model-index": None,
    "transformersInfo": {"auto_model": "AutoModelForSeq2SeqLM", "pipeline_tag": "text2text-generation",
                         "processor": "AutoTokenizer"},
    "widgetData": [{"text": "Translate to German: My name is Arthur"}],
    "siblings": [{"rfilename": name} for name in [*FILES, "../../secrets", "/etc/passwd", "a\\b", "", 7]],
}  # fmt: skip
DATASET_INFO = {
    "_id": "625552d2b339bb03abe3432d", "id": DATASET, "author": "openai", "sha": DATASET_SHA, "private": False,
    "gated": False, "disabled": False, "downloads": 5, "likes": 2, "lastModified": "2024-01-04T12:05:15.000Z",
    "createdAt": "2022-04-12T10:22:10.000Z", "description": "Word problems.", "paperswithcode_id": "gsm8k",
    "tags": ["task_categories:text-generation"], "cardData": {"license": ["mit"]},
    "siblings": [{"rfilename": "README.md"}, {"rfilename": "main/test-00000-of-00001.parquet"}],
}  # fmt: skip
UNLISTED = "our-group/tiny-t5"
"""At the hub, and not in the catalogue."""


Answer = tuple[int, dict[str, str], bytes]
"""Status, headers, body."""
MISSING: Answer = (404, {}, b'{"error": "Repository not found"}')


def json_answer(content: object) -> Answer:
    """JSON."""
    return 200, {"Content-Type": "application/json"}, json.dumps(content).encode()


def text_answer(text: str) -> Answer:
    """Text."""
    return 200, {"Content-Type": "text/plain"}, text.encode()


@dataclass
class FakeHub:
    """Its answers by path, and the paths that were asked for; no other path exists.

    Args:
        url: where it responds, once it is started.
        answers: by path.
        asked: in order, with what the client sent as Authorization.
        down: while it is set, it fails.
    """

    url: str = ""
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    down: threading.Event = field(default_factory=threading.Event)


def furnished() -> FakeHub:
    """With a model, a dataset, and a model that the lab's catalogue does not hold."""
    hub = FakeHub()
    hub.answers = {
        f"/api/models/{MODEL}": json_answer(INFO),
        f"/{MODEL}/resolve/main/README.md": (307, {"Location": f"/api/resolve-cache/{SHA}/README.md"}, b""),
        f"/api/resolve-cache/{SHA}/README.md": text_answer(CARD),
        f"/api/datasets/{DATASET}": json_answer(DATASET_INFO),
        f"/datasets/{DATASET}/resolve/main/README.md": text_answer("# GSM8K\n"),
        f"/api/models/{UNLISTED}": json_answer({**INFO, "id": UNLISTED, "author": "our-group", "downloads": "many"}),
    }
    return hub


@contextmanager
def running_hub(hub: FakeHub) -> Iterator[FakeHub]:
    """Serves it on loopback; while `down` is set, every request fails."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.asked.append((self.path, self.headers.get("Authorization")))
            failed: Answer = (502, {}, b"")
            status, headers, body = failed if hub.down.is_set() else hub.answers.get(self.path, MISSING)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Logs nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    with in_background(server):
        yield hub
