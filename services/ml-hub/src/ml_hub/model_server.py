"""Asks the site's inference server in the name of a user."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import BaseModel, Field, ValidationError

ModelT = TypeVar("ModelT", bound=BaseModel)
PATH = "/v3/ml-hub/inference"
STATE_SECONDS = 5.0
"""Longest wait for the states: the page is shown without them."""
ASK_SECONDS = 240.0
"""Longest wait for an answer: the server itself refuses what takes longer, with the reason."""
CONNECTIONS = 16
"""Prompts of a process at once."""
LARGEST = 2**20
"""Bytes of a response."""


class NoAnswer(Exception):
    """The inference server refuses, or does not respond; the message gives the reason and goes to the user.

    Args:
        text: why.
        status: of HTTP.
    """

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class ModelState(BaseModel):
    """What a model does now."""

    model_id: str
    state: Literal["stopped", "starting", "ready", "failed"]
    reason: str = ""
    accelerator: str = ""


class _Available(BaseModel):
    models: list[ModelState]


class _States(BaseModel):
    result: _Available


class _Text(BaseModel):
    result: str


class _Refusal(BaseModel):
    message: str = Field(min_length=1, max_length=10_000)


@dataclass(frozen=True)
class _Response:
    status: int
    body: bytes


class ModelServer:
    """The inference server.

    Args:
        url: without a path.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/") + PATH
        self._turns = asyncio.Semaphore(CONNECTIONS)

    async def states(self, token: str) -> Mapping[str, ModelState]:
        """By id, the models that the user may ask.

        Raises:
            NoAnswer.
        """
        response = await self._send("GET", self._url, token, STATE_SECONDS)
        return {model.model_id: model for model in _read(_States, response).result.models}

    async def ask(self, token: str, model_id: str, prompt: str) -> str:
        """The text that a model answers; a stopped model is started.

        Raises:
            NoAnswer.
        """
        if self._turns.locked():
            raise NoAnswer("too many prompts wait for their answers here; try again", 503)
        async with self._turns:
            url = f"{self._url}/{quote(model_id)}"
            response = await self._send("POST", url, token, ASK_SECONDS, {"prompt": prompt})
        return _read(_Text, response).result

    async def _send(
        self, method: str, url: str, token: str, seconds: float, body: Mapping[str, Any] | None = None
    ) -> _Response:
        headers = {"X-Tapis-Token": token, "Accept-Encoding": "identity"}
        try:
            async with (
                asyncio.timeout(seconds),
                httpx2.AsyncClient(timeout=seconds, trust_env=False) as http,
                http.stream(method, url, headers=headers, json=body) as response,
            ):
                content = bytearray()
                async for chunk in response.aiter_bytes():
                    content += chunk
                    if len(content) > LARGEST:
                        raise NoAnswer("the answer is too long for a page", 502)
                return _Response(response.status_code, bytes(content))
        except (httpx2.HTTPError, TimeoutError) as error:
            raise NoAnswer("the inference server does not respond; try again", 503) from error


def _read(model: type[ModelT], response: _Response) -> ModelT:
    try:
        if response.status == httpx2.codes.OK:
            return model.model_validate_json(response.body)
        refusal = _Refusal.model_validate_json(response.body).message
    except ValidationError as error:
        raise NoAnswer("the inference server's answer is none", 502) from error
    raise NoAnswer(refusal, response.status)
