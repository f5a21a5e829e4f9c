"""Structured logs: one JSON object per line on standard error."""

from __future__ import annotations

import logging
import sys

import structlog

SENSITIVE = frozenset({"authorization", "token", "password", "client_secret"})


def _hide_secrets(
    _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Last line of defence: fields with these names never reach the output."""
    return {key: "***" if key.lower() in SENSITIVE else value for key, value in event.items()}


def configure(level: str) -> None:
    """Sends the log of the service and of its libraries through one renderer.

    Args:
        level: least level shown: debug, info, warning or error.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
        _hide_secrets,
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
            foreign_pre_chain=shared,
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], True
    # the middleware writes one line per request; URLs of the HTTP client may hold queries
    for name in ("alembic", "uvicorn.access", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
