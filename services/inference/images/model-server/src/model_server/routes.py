"""The HTTP API."""

from __future__ import annotations

import base64
import json
import struct
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from model_server import errors
from model_server.bodies import (
    ChatBody,
    CompletionBody,
    EmbeddingBody,
    TaskBody,
    chat_job,
    completion_jobs,
    embedding_jobs,
    task_jobs,
)
from model_server.errors import FailedError
from model_server.jobs import Classified, Embedded, Failed, Generated, Part, Result
from model_server.metrics import Metrics
from model_server.settings import Settings
from model_server.submission import Submission

Json = dict[str, Any]
Events = AsyncGenerator[Part | Result, None]
END = "data: [DONE]\n\n"


def create_routes(settings: Settings, submission: Submission, metrics: Metrics) -> APIRouter:
    """The routes of a model.

    Args:
        settings: its name and limits.
        submission: takes its jobs.
        metrics: shown at /metrics.
    """
    router = APIRouter()
    name = settings.served_name
    started = int(time.time())

    def deadline() -> float:
        return time.monotonic() + settings.timeout

    def check_model(asked: str) -> None:
        if asked != name:
            raise FailedError(Failed(404, "model_not_found", f"model {asked} is not served here, but {name}", "model"))

    @router.get("/healthz")
    async def healthz() -> PlainTextResponse:
        return PlainTextResponse("ok")

    @router.get("/readyz")
    async def readyz() -> PlainTextResponse:
        ready = submission.ready()
        return PlainTextResponse("ok" if ready else "the model is not loaded", 200 if ready else 503)

    @router.get("/metrics")
    async def exposition() -> Response:
        return Response(generate_latest(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    @router.get("/v1/models")
    async def models() -> Json:
        return {"object": "list", "data": [model()]}

    @router.get("/v1/models/{asked:path}")
    async def one_model(asked: str) -> Json:
        check_model(asked)
        return model()

    def model() -> Json:
        return {"id": name, "object": "model", "created": started, "owned_by": "strata"}

    @router.post("/v1/completions")
    async def completions(body: CompletionBody) -> Response:
        check_model(body.model)
        jobs = completion_jobs(body, settings, deadline())
        head = _head("cmpl", "text_completion", name)
        if body.stream:
            if len(jobs) > 1:
                raise FailedError(Failed(400, "invalid_request", "prompt: a stream has one prompt; send one", "prompt"))
            usage = body.stream_options is not None and body.stream_options.include_usage
            events = await submission.stream(jobs[0])
            return _sse(_stream(events, head, lambda text, end: {"text": text, **_choice(0, end)}, usage))
        results = await submission.results(jobs)
        choices = [{"text": _text(result), **_choice(i, _reason(result))} for i, result in enumerate(results)]
        return JSONResponse({**head, "choices": choices, "usage": _usage(results)})

    @router.post("/v1/chat/completions")
    async def chat(body: ChatBody) -> Response:
        check_model(body.model)
        job = chat_job(body, settings, deadline())
        if body.stream:
            usage = body.stream_options is not None and body.stream_options.include_usage
            head = _head("chatcmpl", "chat.completion.chunk", name)

            def chunk(text: str, end: str | None) -> Json:
                return {"delta": {"content": text} if text else {}, **_choice(0, end)}

            first = {"delta": {"role": "assistant", "content": ""}, **_choice(0, None)}
            return _sse(_stream(await submission.stream(job), head, chunk, usage, first))
        (result,) = await submission.results([job])
        message = {"role": "assistant", "content": _text(result)}
        choices = [{"message": message, **_choice(0, _reason(result))}]
        head = _head("chatcmpl", "chat.completion", name)
        return JSONResponse({**head, "choices": choices, "usage": _usage([result])})

    @router.post("/v1/embeddings")
    async def embeddings(body: EmbeddingBody) -> Response:
        check_model(body.model)
        results = await submission.results(embedding_jobs(body, deadline()))
        vectors = [result.vector for result in results if isinstance(result, Embedded)]
        # OpenAI's client asks for base64 by itself
        data = [
            {
                "object": "embedding",
                "index": i,
                "embedding": _packed(vector) if body.encoding_format == "base64" else vector,
            }
            for i, vector in enumerate(vectors)
        ]
        usage = _usage(results)
        del usage["completion_tokens"]
        return JSONResponse({"object": "list", "data": data, "model": name, "usage": usage})

    @router.post("/")
    async def task(body: TaskBody) -> Response:
        if body.stream:
            if not isinstance(body.inputs, str):
                raise FailedError(Failed(400, "invalid_request", "inputs: a stream has one input; send one", "inputs"))
            (job,) = task_jobs(body, settings, deadline())
            return _sse(_task_stream(await submission.stream(job)))
        results = await submission.results(task_jobs(body, settings, deadline()))
        return JSONResponse([_task_result(result) for result in results])

    return router


def _head(prefix: str, kind: str, name: str) -> Json:
    return {"id": f"{prefix}-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": name}


def _choice(index: int, reason: str | None) -> Json:
    return {"index": index, "finish_reason": reason, "logprobs": None}


def _text(result: Result) -> str:
    assert isinstance(result, Generated)
    return result.text


def _reason(result: Result) -> str:
    assert isinstance(result, Generated)
    return result.reason


def _usage(results: Iterable[Result]) -> Json:
    usages = [result.usage for result in results]
    tokens_in, tokens_out = sum(u.tokens_in for u in usages), sum(u.tokens_out for u in usages)
    return {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}


def _packed(vector: tuple[float, ...]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _task_result(result: Result) -> Any:
    if isinstance(result, Generated):
        return {"generated_text": result.text}
    if isinstance(result, Classified):
        return [{"label": label, "score": score} for label, score in result.labels]
    return list(result.vector)


def _sse(parts: AsyncIterator[str]) -> StreamingResponse:
    return StreamingResponse(parts, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})


def _data(value: Json) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"


async def _stream(
    source: Events,
    head: Json,
    choice: Any,
    usage: bool,
    first: Json | None = None,
) -> AsyncIterator[str]:
    """OpenAI's stream: parts, the reason of the end, tokens if asked for."""
    try:
        async with aclosing(source) as events:
            async for event in events:
                if first is not None:
                    yield _data({**head, "choices": [first]})
                    first = None
                if isinstance(event, Part):
                    yield _data({**head, "choices": [choice(event.text, None)]})
                else:
                    yield _data({**head, "choices": [choice("", _reason(event))]})
                    if usage:
                        yield _data({**head, "choices": [], "usage": _usage([event])})
                    yield END
    except FailedError as error:
        yield _data(errors.content(error.failure))


async def _task_stream(source: Events) -> AsyncIterator[str]:
    """The stream of text-generation-inference, which InferenceClient reads."""
    index = 0
    try:
        async with aclosing(source) as events:
            async for event in events:
                index += 1
                text = event.text if isinstance(event, Part) else ""
                token = {"id": 0, "text": text, "logprob": 0.0, "special": not text}
                end = event if isinstance(event, Generated) else None
                details = end and {
                    "finish_reason": "length" if end.reason == "length" else "eos_token",
                    "generated_tokens": end.usage.tokens_out,
                    "input_length": end.usage.tokens_in,
                }
                yield _data({"index": index, "token": token, "generated_text": end and end.text, "details": details})
    except FailedError as error:
        yield _data({"error": error.failure.message, "error_type": error.failure.code})


class Measured:
    """Counts requests and their seconds, streams to their end.

    Args:
        app: the application.
        metrics: take the counts.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        begin, status, streamed = time.perf_counter(), "500", False

        async def counted(message: Message) -> None:
            nonlocal status, streamed
            if message["type"] == "http.response.start":
                status = str(message["status"])
                streamed = (b"content-type", b"text/event-stream; charset=utf-8") in message["headers"]
            elif streamed and message.get("body"):
                self._metrics.first_token.observe(time.perf_counter() - begin)
                streamed = False
            await send(message)

        try:
            await self._app(scope, receive, counted)
        finally:
            route = getattr(scope.get("route"), "path", "unknown")
            self._metrics.requests.labels(route, status).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - begin)


def install(app: FastAPI, settings: Settings, submission: Submission, metrics: Metrics) -> None:
    """Adds routes, errors and metrics to an application."""
    app.include_router(create_routes(settings, submission, metrics))
    app.add_middleware(Measured, metrics=metrics)
    errors.add_handlers(app)
