"""Runs the issuer; everything is set by TOKEN_ISSUER_… variables."""

from __future__ import annotations

import logging
import sys
from typing import NoReturn

import uvicorn
from pydantic import ValidationError

from token_issuer.app import create_app
from token_issuer.clients import UnusableClients
from token_issuer.keys import UnusableKey
from token_issuer.settings import Settings


def _fail(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(2)


def main() -> None:
    """Entry of the console script."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        settings = Settings()
        app = create_app(settings)
    except ValidationError as error:
        lines = []
        for problem in error.errors(include_input=False):
            variable = "TOKEN_ISSUER_" + ".".join(str(p) for p in problem["loc"]).upper() if problem["loc"] else ""
            lines.append(f"{variable}: {problem['msg'].removeprefix('Value error, ')}".removeprefix(": "))
        _fail("\n       ".join(lines))
    except (UnusableKey, UnusableClients) as error:
        _fail(str(error))
    # no access log: it would hold nothing that the line per token does not
    uvicorn.run(
        app,
        host=settings.bind_address,
        port=settings.bind_port,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=10,
    )


if __name__ == "__main__":
    main()
