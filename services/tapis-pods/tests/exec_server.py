"""A substitute for the API server that runs what is asked in processes, by Kubernetes' protocol v5.channel.k8s.io.

The real one passes commands on to a kubelet by SPDY, which no program of the tests speaks; tests/lab has both.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any
from urllib.parse import parse_qs

import uvicorn  # type: ignore[import-not-found]  # of the service's environment

PROTOCOL = "v5.channel.k8s.io"
STDOUT, STDERR, ERROR = b"\1", b"\2", b"\3"
CLOSE_STDIN = b"\xff\x00"
PART = 32_768


def _status(returned: int) -> dict[str, Any]:
    if returned == 0:
        return {"metadata": {}, "status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(returned)}]
    return {"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}


async def _run(command: list[str], send: Any, stdin_closed: asyncio.Event) -> None:
    async def show(channel: bytes, content: bytes) -> None:
        await send({"type": "websocket.send", "bytes": channel + content})

    async def copy(channel: bytes, stream: asyncio.StreamReader) -> None:
        while part := await stream.read(PART):
            await show(channel, part)

    try:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    except OSError as error:
        failed = {"status": "Failure", "reason": "InternalError", "message": f"failed to exec in container: {error}"}
        await show(ERROR, json.dumps({"metadata": {}, "code": 500, **failed}).encode())
        return
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        await stdin_closed.wait()
        process.stdin.close()
        await asyncio.gather(copy(STDOUT, process.stdout), copy(STDERR, process.stderr))
        await show(ERROR, json.dumps(_status(await process.wait())).encode())
    finally:
        if process.returncode is None:
            process.kill()


async def _listen(receive: Any, stdin_closed: asyncio.Event) -> None:
    while (message := await receive())["type"] != "websocket.disconnect":
        if message["bytes"] == CLOSE_STDIN:
            stdin_closed.set()


async def app(scope: Any, receive: Any, send: Any) -> None:
    """GET of a pod, and its subresource exec."""
    if scope["type"] == "websocket":
        await receive()
        query = parse_qs(scope["query_string"].decode())
        expected = {"container": ["main"], "stdin": ["true"], "stdout": ["true"], "stderr": ["true"]}
        if PROTOCOL not in scope["subprotocols"] or not expected.items() <= query.items():
            await send({"type": "websocket.close", "code": 1008})
            return
        await send({"type": "websocket.accept", "subprotocol": PROTOCOL})
        stdin_closed = asyncio.Event()
        running = asyncio.create_task(_run(query["command"], send, stdin_closed))
        closed = asyncio.create_task(_listen(receive, stdin_closed))
        await asyncio.wait({running, closed}, return_when=asyncio.FIRST_COMPLETED)
        running.cancel()
        if not closed.done():
            await send({"type": "websocket.close"})
        closed.cancel()
    elif scope["type"] == "http":
        name = scope["path"].rpartition("/")[2]
        metadata = {"name": name, "annotations": {"strata.dev/run": "1"}}
        status = 200
        content: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        if name == "pods-away":
            status, content = (
                404,
                {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": 404},
            )
        body = json.dumps(content).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), ws="wsproto", log_level="warning", lifespan="off")
