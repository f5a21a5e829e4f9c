"""What the HTTP process sends to the model's, and what it sends back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a request wants."""

    GENERATE = "generate"
    EMBED = "embed"
    ANY = "any"
    """Whatever the model does."""


@dataclass(frozen=True)
class Message:
    """One turn of a conversation."""

    role: str
    content: str


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen; requests of one batch share it.

    Args:
        temperature: 0 takes the most likely token.
        top_p: the smallest set of tokens with this probability is sampled.
        seed: makes a request repeatable.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None


@dataclass(frozen=True)
class Job:
    """One input.

    Args:
        kind: what is requested.
        text: the input; None: `messages`.
        messages: a conversation.
        max_tokens: tokens to generate at most; None: the default, or what the model has room for.
        stop: texts that end the output and are not part of it.
        sampling: how tokens are chosen.
        stream: whether parts of the text are sent as they come.
        deadline: of the machine's monotonic clock, in seconds.
    """

    kind: Kind
    text: str | None
    messages: tuple[Message, ...] = ()
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    sampling: Sampling = Sampling()
    stream: bool = False
    deadline: float = float("inf")


@dataclass(frozen=True)
class Part:
    """Text that follows what was sent before."""

    text: str


@dataclass(frozen=True)
class Usage:
    """Tokens of one input, and how many inputs ran with it."""

    tokens_in: int
    tokens_out: int
    batch: int


@dataclass(frozen=True)
class Generated:
    """All of the text; `reason` as OpenAI's finish_reason: stop or length."""

    text: str
    reason: str
    usage: Usage


@dataclass(frozen=True)
class Embedded:
    """The vector of a text."""

    vector: tuple[float, ...]
    usage: Usage


@dataclass(frozen=True)
class Classified:
    """Labels with their probabilities, the most likely first."""

    labels: tuple[tuple[str, float], ...]
    usage: Usage


@dataclass(frozen=True)
class Failed:
    """Why there is no result.

    Args:
        status: of HTTP.
        code: for programs, as OpenAI's `code`.
        message: for people: what is wrong and how to fix it.
        parameter: the field of the request.
    """

    status: int
    code: str
    message: str
    parameter: str | None = None


Result = Generated | Embedded | Classified
Event = Part | Result | Failed
