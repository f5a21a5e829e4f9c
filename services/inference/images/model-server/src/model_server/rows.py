"""The rows of a batch while it is generated: what each has so far, and whether it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from transformers import StoppingCriteria
from transformers.generation.streamers import BaseStreamer

from model_server.backend import Prepared
from model_server.batches import TIMED_OUT
from model_server.jobs import Event, Failed, Generated, Part, Usage

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

UNFINISHED = "\ufffd"
"""What a character decodes to as long as tokens of it are missing."""


class Row:
    """One output.

    Args:
        prepared: its input.
        tokenizer: of the model.
        batch: rows beside it, itself included.
    """

    def __init__(self, prepared: Prepared, tokenizer: PreTrainedTokenizerBase, batch: int) -> None:
        self._job = prepared.job
        self._tokens_in = len(prepared.tokens)
        self._max_tokens = prepared.max_tokens
        self._tokenizer = tokenizer
        self._batch = batch
        self._tokens: list[int] = []
        self._before = self._decoded = 0
        self._text = ""
        self._sent = 0
        self._reads = bool(self._job.stop) or self._job.stream
        self.result: Generated | Failed | None = None

    def add(self, token: int, ends: frozenset[int]) -> list[Event]:
        """Takes the next token.

        Returns:
            What the client can have now.
        """
        if self.result is not None:
            return []
        job = self._job
        self._tokens.append(token)
        if token in ends:
            return self._finish("stop")
        if self._reads:
            self._read()
            if self._cut():
                return self._finish("stop", final=True)
        if len(self._tokens) >= self._max_tokens:
            return self._finish("length")
        if time.monotonic() >= job.deadline:
            self.result = TIMED_OUT
            return [TIMED_OUT]
        if not job.stream:
            return []
        # a stop text may have begun
        return self._part(len(self._text) - max((len(stop) - 1 for stop in job.stop), default=0))

    def _read(self) -> None:
        """Decodes what is new; tokens before it decide about spaces."""
        before = self._decode(self._tokens[self._before : self._decoded])
        text = self._decode(self._tokens[self._before :])
        if len(text) > len(before) and not text.endswith(UNFINISHED):
            self._text += text[len(before) :]
            self._before, self._decoded = self._decoded, len(self._tokens)

    def _decode(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))

    def _cut(self) -> bool:
        """Ends the text before the first stop text; whether there is one."""
        positions = [at for at in (self._text.find(stop) for stop in self._job.stop) if at >= 0]
        self._text = self._text[: min(positions, default=None)]
        return bool(positions)

    def _part(self, end: int) -> list[Event]:
        if end <= self._sent:
            return []
        part = self._text[self._sent : end]
        self._sent = end
        return [Part(part)]

    def _finish(self, reason: str, final: bool = False) -> list[Event]:
        if not final:
            if self._job.stream:
                rest = self._decode(self._tokens[self._before :])
                self._text += rest[len(self._decode(self._tokens[self._before : self._decoded])) :]
            else:
                self._text = self._decode(self._tokens)
            if self._cut():
                reason = "stop"
        last = self._part(len(self._text)) if self._job.stream else []
        self.result = Generated(self._text, reason, Usage(self._tokens_in, len(self._tokens), self._batch))
        return [*last, self.result]


class Rows(StoppingCriteria, BaseStreamer):  # type: ignore[misc]  # transformers ships no types
    """Reads each step of `generate` and ends rows by themselves.

    Args:
        rows: of the batch.
        ends: the model's end tokens.
        send: takes the position of a row, and what happened there.
    """

    def __init__(self, rows: Sequence[Row], ends: frozenset[int], send: Callable[[int, Event], None]) -> None:
        self._rows = rows
        self._ends = ends
        self._send = send
        self._prompt = True

    def put(self, value: torch.Tensor) -> None:
        """The prompt first, then a token for each row."""
        if self._prompt:
            self._prompt = False
            return
        for position, (row, token) in enumerate(zip(self._rows, value.tolist(), strict=True)):
            for event in row.add(token, self._ends):
                self._send(position, event)

    def end(self) -> None:
        """All rows are done."""

    def __call__(self, input_ids: torch.Tensor, _scores: Any, **_: Any) -> torch.Tensor:
        """Which rows are done."""
        return torch.tensor([row.result is not None for row in self._rows], device=input_ids.device, dtype=torch.bool)
