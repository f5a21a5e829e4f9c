"""What pages show of models that the site serves: their states, and answers to a prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import structlog
from fastapi import Request

from ml_hub.model_server import ModelServer, ModelState, NoAnswer
from ml_hub.repository import Repository
from ml_hub.web.usage import EMBEDDINGS, LABELS

LONGEST_PROMPT = 20_000
"""Characters."""
NO_LOGIN = "Your session has no token for it. Log out, and log in again."
UNAUTHORIZED = 401
WORDS = {
    "stopped": ("Stopped", "", "The next prompt starts it."),
    "starting": ("Starting", "", "Prompts wait for it."),
    "ready": ("Ready", "good", ""),
    "failed": ("Does not start", "bad", ""),
}
PLACES = {"cpu": "on CPUs", "gpu": "on a GPU"}
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class State:
    """Of a model, in users' words.

    Args:
        word: what it does.
        kind: `good`, `bad` or empty.
        message: what follows from it, or why.
        place: where it runs.
    """

    word: str
    kind: str
    message: str
    place: str

    @classmethod
    def of(cls, model_state: ModelState) -> State:
        """As the inference server reports it."""
        word, kind, message = WORDS[model_state.state]
        return cls(word, kind, model_state.reason or message, PLACES.get(model_state.accelerator, ""))


UNKNOWN = State("Unknown", "", "", "")
"""If the inference server does not report it."""


@dataclass(frozen=True)
class Conversation:
    """A prompt on a page.

    Args:
        prompt: of the user.
        answer: of the model; None: there is none.
        problem: why there is none; empty where nothing was asked.
        status: of HTTP.
    """

    prompt: str = ""
    answer: str | None = None
    problem: str = ""
    status: int = 200


def takes_prompts(request: Request, repository: Repository) -> bool:
    """Whether pages can ask a model: its task answers with text, and the service reaches the inference server."""
    return _server(request) is not None and repository.entry["pipeline_tag"] not in {LABELS, *EMBEDDINGS}


async def read_states(request: Request, token: str | None) -> Mapping[str, State]:
    """By id, the models that the visitor may ask; empty if the inference server does not report it."""
    server = _server(request)
    if server is None or token is None:
        return {}
    try:
        return {name: State.of(model) for name, model in (await server.states(token)).items()}
    except NoAnswer as error:
        log.warning("states of models are unknown", reason=str(error))
        return {}


async def ask(request: Request, token: str | None, model_id: str, prompt: str) -> Conversation:
    """Asks a model that the visitor may ask."""
    server = _server(request)
    if server is None:
        return Conversation(prompt, problem="This site's pages ask no models.", status=404)
    text = prompt.replace("\r\n", "\n")
    if not text.strip():
        return Conversation(prompt, problem="Write a prompt.", status=400)
    if len(text) > LONGEST_PROMPT:
        problem = f"The prompt has {len(text):,} characters, and {LONGEST_PROMPT:,} are possible."
        return Conversation(prompt, problem=problem, status=400)
    if token is None:
        return Conversation(prompt, problem=NO_LOGIN, status=UNAUTHORIZED)
    try:
        return Conversation(prompt, answer=await server.ask(token, model_id, text))
    except NoAnswer as error:
        problem = NO_LOGIN if error.status == UNAUTHORIZED else f"No answer: {error}"
        return Conversation(prompt, problem=problem, status=error.status)


def _server(request: Request) -> ModelServer | None:
    server: ModelServer | None = request.app.state.model_server
    return server
