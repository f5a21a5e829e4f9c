"""Requests to model servers, and their answers on the way back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from typing import Any

import httpx2
import structlog
from fastapi import HTTPException
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from inference.bodies import Json, written
from inference.counts import Counts
from inference.models import Chosen
from inference.runtime import Busy, Runtime, Unavailable
from inference.settings import Settings
from inference.usage import Events, Usage, ask_for_usage

CONNECT_SECONDS = 5.0
PASSED = ("content-type", "retry-after", "x-should-retry")
"""Headers of a model server's answer that callers get."""
EVENTS = "text/event-stream"
BROKEN = "the model server ended while it answered; try again"
TOO_SLOW = "the model server took too long; ask for fewer tokens"

log = structlog.get_logger(__name__)


class _Streamed(StreamingResponse):
    """A stream that ends with what it needs."""

    def __init__(self, stack: AsyncExitStack, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._stack = stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._stack:
            await super().__call__(scope, receive, send)


class Forwarder:
    """Sends requests to model servers.

    Nothing of a caller's headers goes to them, and of their answers, status, body and PASSED come back.

    Args:
        settings: limits and times.
        client: without proxies and redirects.
        counts: metrics.
    """

    def __init__(self, settings: Settings, client: httpx2.AsyncClient, counts: Counts) -> None:
        self._settings, self._client, self._counts = settings, client, counts

    async def forward(self, chosen: Chosen, path: str, body: Json) -> Response:
        """The answer of a model, which is started for it.

        Args:
            chosen: the model.
            path: of its server.
            body: as the caller sent it.

        Raises:
            HTTPException: 400, 429, 502, 503, 504; errors of the model server are answers.
        """
        hidden = path.startswith("/v1/") and ask_for_usage(body)
        content = written(body)
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(chosen.runtime.use())
            except Busy as error:
                self._count(chosen, 429, Usage())
                raise HTTPException(429, str(error), headers={"Retry-After": "2"}) from None
            try:
                answer = await self._send(chosen.runtime, path, content)
                stack.push_async_callback(answer.aclose)
                headers = {name: answer.headers[name] for name in PASSED if name in answer.headers}
                if headers.get("content-type", "").startswith(EVENTS):
                    usage = Usage()
                    stack.callback(lambda: self._count(chosen, answer.status_code, usage))
                    parts = self._events(chosen.runtime, answer, Events(usage, hide=hidden))
                    headers["cache-control"] = "no-cache"
                    return _Streamed(stack.pop_all(), parts, answer.status_code, headers)
                whole = await self._whole(answer)
            except HTTPException as error:
                self._count(chosen, error.status_code, Usage())
                raise
        self._count(chosen, answer.status_code, _usage(whole))
        return Response(whole, answer.status_code, headers)

    async def _send(self, runtime: Runtime, path: str, content: bytes) -> httpx2.Response:
        headers = {"content-type": "application/json", "accept": f"application/json, {EVENTS}"}
        request = self._client.build_request(
            "POST",
            f"{runtime.model.url}{path}",
            content=content,
            headers=headers,
            timeout=httpx2.Timeout(self._settings.request_seconds, connect=CONNECT_SECONDS),
        )
        try:
            await runtime.ready()
            try:
                return await self._client.send(request, stream=True)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                # its pod has gone, and nothing was sent
                await runtime.ready(again=True)
                return await self._client.send(request, stream=True)
        except Unavailable as error:
            raise HTTPException(503, error.reason, headers={"Retry-After": str(error.retry_after)}) from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            detail = f"the server of model {runtime.model.id} does not respond; try again"
            raise HTTPException(503, detail, headers={"Retry-After": "5"}) from None
        except httpx2.TimeoutException:
            raise HTTPException(504, TOO_SLOW) from None
        except httpx2.HTTPError:
            raise HTTPException(502, BROKEN, headers={"Retry-After": "1"}) from None

    async def _whole(self, answer: httpx2.Response) -> bytes:
        content = bytearray()
        try:
            async for part in answer.aiter_bytes():
                content += part
                if len(content) > self._settings.answer_bytes:
                    raise HTTPException(
                        502, f"the answer is longer than {self._settings.answer_bytes} bytes; ask for less"
                    )
        except httpx2.TimeoutException:
            raise HTTPException(504, TOO_SLOW) from None
        except httpx2.HTTPError:
            raise HTTPException(502, BROKEN, headers={"Retry-After": "1"}) from None
        return bytes(content)

    async def _events(self, runtime: Runtime, answer: httpx2.Response, events: Events) -> AsyncIterator[bytes]:
        try:
            async for part in answer.aiter_bytes():
                if passed := events.passed(part):
                    yield passed
            yield events.rest()
        except httpx2.HTTPError as error:
            # the status is sent: the error is the last event, which openai raises
            log.warning("stream broke off", model=runtime.model.id, reason=str(error) or type(error).__name__)
            failure = {"message": BROKEN, "type": "server_error", "param": None, "code": "broken_stream"}
            yield f"data: {json.dumps({'error': failure})}\n\n".encode()

    def _count(self, chosen: Chosen, status: int, usage: Usage) -> None:
        by = (chosen.runtime.model.id, chosen.tenant)
        self._counts.requests.labels(*by, str(status)).inc()
        self._counts.tokens.labels(*by, "in").inc(usage.tokens_in)
        self._counts.tokens.labels(*by, "out").inc(usage.tokens_out)


def _usage(answer: bytes) -> Usage:
    usage = Usage()
    with suppress(ValueError, RecursionError):
        usage.read(json.loads(answer))
    return usage
