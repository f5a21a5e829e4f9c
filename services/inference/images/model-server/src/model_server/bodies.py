"""The requests that clients send, and the jobs that they become."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from model_server.jobs import Job, Kind, Message, Sampling
from model_server.settings import Settings

MAX_INPUTS = 256
"""Of one request."""
NEUTRAL: dict[str, tuple[object, ...]] = {
    "best_of": (None, 1),
    "echo": (None, False),
    "frequency_penalty": (None, 0),
    "logit_bias": (None, {}),
    "logprobs": (None, False, 0),
    "n": (None, 1),
    "presence_penalty": (None, 0),
    "response_format": (None, {"type": "text"}),
    "suffix": (None, ""),
    "tools": (None, []),
    "top_logprobs": (None, 0),
}
"""Fields of OpenAI's that would change the answer and are not served, with the values that ask for nothing."""

Inputs = str | Annotated[list[str], Field(min_length=1, max_length=MAX_INPUTS)]


class _Body(BaseModel):
    """Fields that are not named here are ignored, as clients send many, but not those that change the answer."""

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="after")
    def _neutral(self) -> _Body:
        for name, value in (self.model_extra or {}).items():
            if name in NEUTRAL and value not in NEUTRAL[name]:
                raise ValueError(f"{name} is not supported; leave it out")
        return self


class StreamOptions(BaseModel):
    """Of a stream."""

    include_usage: bool = False


class _Generation(_Body):
    model: str
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: int | None = None
    stop: Annotated[str, Field(min_length=1)] | Annotated[list[str], Field(max_length=4)] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        """The texts that end the output."""
        given = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return tuple(stop for stop in given if stop)

    @property
    def sampling(self) -> Sampling:
        """How tokens are chosen; without a temperature, the most likely one."""
        if not self.temperature:
            return Sampling()
        return Sampling(self.temperature, self.top_p or 1.0, self.seed)


class CompletionBody(_Generation):
    """`POST /v1/completions`."""

    prompt: Inputs


class ContentPart(BaseModel):
    """Of a message; models read text only."""

    type: Literal["text"]
    text: str


class ChatMessage(BaseModel):
    """One turn."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[ContentPart]

    @property
    def text(self) -> str:
        """All of its text."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ChatBody(_Generation):
    """`POST /v1/chat/completions`."""

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None


class EmbeddingBody(_Body):
    """`POST /v1/embeddings`."""

    model: str
    input: Inputs
    encoding_format: Literal["float", "base64"] = "float"


class TaskParameters(BaseModel):
    """Of Hugging Face's tasks; others are ignored, as InferenceClient sends many."""

    max_new_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=1)] | None = None
    seed: int | None = None
    stop: list[str] | None = None
    do_sample: bool | None = None


class TaskBody(BaseModel):
    """`POST /`, as huggingface_hub's InferenceClient sends it."""

    inputs: Inputs
    parameters: TaskParameters | None = None
    stream: bool = False


class LimitError(ValueError):
    """A request beyond the limits of the server; `parameter` names its field."""

    def __init__(self, message: str, parameter: str) -> None:
        super().__init__(message)
        self.parameter = parameter


def _tokens(requested: int | None, settings: Settings, parameter: str) -> int | None:
    if requested is not None and requested > settings.output_tokens:
        raise LimitError(
            f"{parameter} is {requested}, this server generates {settings.output_tokens} tokens at most; lower it",
            parameter,
        )
    return requested


def completion_jobs(body: CompletionBody, settings: Settings, deadline: float) -> list[Job]:
    """A job for each prompt.

    Raises:
        LimitError: max_tokens is too high.
    """
    prompts = [body.prompt] if isinstance(body.prompt, str) else body.prompt
    tokens = _tokens(body.max_tokens, settings, "max_tokens")
    return [
        Job(Kind.GENERATE, prompt, (), tokens, body.stops, body.sampling, body.stream, deadline) for prompt in prompts
    ]


def chat_job(body: ChatBody, settings: Settings, deadline: float) -> Job:
    """The job of a conversation.

    Raises:
        LimitError: max_tokens is too high.
    """
    name = "max_tokens" if body.max_completion_tokens is None else "max_completion_tokens"
    tokens = _tokens(body.max_completion_tokens or body.max_tokens, settings, name)
    messages = tuple(Message(message.role, message.text) for message in body.messages)
    return Job(Kind.GENERATE, None, messages, tokens, body.stops, body.sampling, body.stream, deadline)


def embedding_jobs(body: EmbeddingBody, deadline: float) -> list[Job]:
    """A job for each text."""
    texts = [body.input] if isinstance(body.input, str) else body.input
    return [Job(Kind.EMBED, text, deadline=deadline) for text in texts]


def task_jobs(body: TaskBody, settings: Settings, deadline: float) -> list[Job]:
    """A job for each input.

    Raises:
        LimitError: max_new_tokens is too high.
    """
    asked = body.parameters or TaskParameters()
    sampling = Sampling()
    if asked.do_sample or (asked.do_sample is None and asked.temperature):
        sampling = Sampling(asked.temperature or 1.0, asked.top_p or 1.0, asked.seed)
    tokens = _tokens(asked.max_new_tokens, settings, "parameters.max_new_tokens")
    stops = tuple(stop for stop in asked.stop or [] if stop)
    inputs = [body.inputs] if isinstance(body.inputs, str) else body.inputs
    return [Job(Kind.ANY, text, (), tokens, stops, sampling, body.stream, deadline) for text in inputs]


def field_of(location: tuple[Any, ...]) -> str:
    """The name of a field, from where pydantic found the error; without the member of a union, as `list[str]`."""
    return ".".join(str(part) for part in location if part not in {"body", "str"} and "[" not in str(part))
