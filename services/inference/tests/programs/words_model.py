"""A model without a neural network, for tests of everything around one: it answers with the words of its input.

`explode` fails; `huge` needs more memory than there is, a batch of more than MEMORY words too; `break` loses the
device; `wait` makes the file `waiting` beside GATE and runs until GATE
exists.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from model_server.backend import Backend, BrokenError, OutOfMemoryError, Prepared, RefusedError
from model_server.jobs import Event, Failed, Generated, Job, Kind, Part, Usage
from model_server.settings import Settings

LIMIT = 20
MEMORY = 24


class WordsModel:
    """Its tokens are numbers of words."""

    def __init__(self, gate: Path) -> None:
        self._gate = gate

    def prepare(self, job: Job) -> Prepared:
        """One token a word."""
        if job.kind is Kind.EMBED:
            raise RefusedError(Failed(400, "invalid_request", "words have no embeddings", "model"))
        words = self._words(job)
        if len(words) > LIMIT:
            raise RefusedError(Failed(400, "context_length_exceeded", f"{len(words)} words, of {LIMIT}", "prompt"))
        return Prepared(job, tuple(range(len(words))), job.max_tokens or LIMIT, job.sampling)

    def run(self, batch: Sequence[Prepared]) -> Iterator[tuple[int, Event]]:
        """A part for each word."""
        texts = [self._words(prepared.job) for prepared in batch]
        everything = [word for words in texts for word in words]
        if "wait" in everything:
            self._gate.with_name("waiting").touch()
            while not self._gate.exists():
                time.sleep(0.01)
        if "break" in everything:
            raise BrokenError("the device is gone")
        if "explode" in everything:
            raise ValueError("this input cannot be read")
        if "huge" in everything or len(everything) > MEMORY:
            raise OutOfMemoryError("too many words")
        for position, prepared in enumerate(batch):
            words = texts[position][: prepared.max_tokens]
            for word in words if prepared.job.stream else ():
                yield position, Part(word + " ")
            reason = "stop" if len(words) == len(texts[position]) else "length"
            text = "".join(word + " " for word in words)
            yield position, Generated(text, reason, Usage(len(texts[position]), len(words), len(batch)))

    def free_memory(self) -> None:
        """It holds none."""

    @staticmethod
    def _words(job: Job) -> list[str]:
        text = job.text if job.text is not None else " ".join(message.content for message in job.messages)
        return text.split()


def load(settings: Settings) -> Backend:
    """The model; `absent` and `killed` do not load."""
    if settings.model == "absent":
        raise FileNotFoundError("no such model")
    if settings.model == "killed":
        os._exit(9)
    gate = Path(os.environ["GATE"])
    # for the test of what PyTorch would find
    gate.with_name("threads").write_text(json.dumps({k: v for k, v in os.environ.items() if k.startswith("OMP_")}))
    return WordsModel(gate)
