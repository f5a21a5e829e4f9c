"""Most bytes of a request that is read as a whole."""

from __future__ import annotations

import re

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BODY = 4 * 2**20
_STREAMED = re.compile(r"/uploads/.*|/api/(models|datasets)/.*/commit/[^/]*")
"""Paths of routes that read as it arrives, with limits of their own."""


class TooLarge(Exception):
    """The body has more bytes than it may."""


class BodyLimit:
    """ASGI middleware: the framework reads a body before any route or dependency sees the request.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection."""
        if scope["type"] != "http" or _STREAMED.fullmatch(scope["path"]):
            await self.app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if not announced.isdigit() or int(announced) > LARGEST_BODY:
            refused = JSONResponse({"error": f"the request has more than {LARGEST_BODY} bytes"}, 413)
            await refused(scope, receive, send)
            return
        received = 0

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > LARGEST_BODY:
                raise TooLarge(f"the request has more than {LARGEST_BODY} bytes")
            return message

        await self.app(scope, limited, send)
