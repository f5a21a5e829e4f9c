"""Tokens that answers report, also those of streams whose callers did not ask for them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

SEPARATOR = b"\n\n"
LONGEST_EVENT = 1_048_576
"""Bytes after which a part without an end of an event passes as it is."""


@dataclass
class Usage:
    """Tokens of one answer."""

    tokens_in: int = 0
    tokens_out: int = 0

    def read(self, answer: Any) -> bool:
        """Takes what an answer or an event reports; returns whether it does."""
        if not isinstance(answer, dict):
            return False
        if isinstance(usage := answer.get("usage"), dict):
            self.tokens_in, self.tokens_out = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
            return True
        if isinstance(details := answer.get("details"), dict):
            self.tokens_in, self.tokens_out = _count(details, "input_length"), _count(details, "generated_tokens")
            return True
        return False


def _count(values: dict[str, Any], name: str) -> int:
    value = values.get(name)
    return value if isinstance(value, int) and value > 0 else 0


def ask_for_usage(body: dict[str, Any]) -> bool:
    """Makes a request of OpenAI's for a stream ask for its tokens; returns whether it did not already.

    A request that the model server will refuse remains as it is.
    """
    options = body.get("stream_options")
    if body.get("stream") is not True or not (options is None or isinstance(options, dict)):
        return False
    options = options or {}
    if options.get("include_usage") not in (None, False):
        return False
    body["stream_options"] = {**options, "include_usage": True}
    return True


class Events:
    """A stream of events on its way: reads the tokens, and removes the event that was not requested.

    Args:
        usage: takes the tokens.
        hide: whether an event with tokens alone is taken out.
    """

    def __init__(self, usage: Usage, *, hide: bool) -> None:
        self._usage, self._hide = usage, hide
        self._rest = b""

    def passed(self, part: bytes) -> bytes:
        """The events that are complete with this part."""
        *whole, self._rest = (self._rest + part).split(SEPARATOR)
        out = b"".join(event + SEPARATOR for event in whole if self._keep(event))
        if len(self._rest) > LONGEST_EVENT:
            return out + self.rest()
        return out

    def rest(self) -> bytes:
        """What is left without an end."""
        rest, self._rest = self._rest, b""
        return rest

    def _keep(self, event: bytes) -> bool:
        if b'"usage"' not in event and b'"details"' not in event:
            return True
        try:
            chunk = json.loads(event.removeprefix(b"data:"))
        except (ValueError, RecursionError):
            return True
        reports = self._usage.read(chunk)
        return not (reports and self._hide and chunk.get("choices") == [])
