"""Work that one process at a time does, whose requests are rows in PostgreSQL."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
from sqlalchemy import Connection, Engine, text

PAUSE_SECONDS = 1.0
KEEPALIVES = (
    "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; "
    "SET statement_timeout = '30s'"
)
"""So that the lock of a process whose node is gone is free within seconds."""

log = structlog.get_logger(__name__)


@contextmanager
def turn(engine: Engine, lock: int) -> Iterator[Connection | None]:
    """A connection that holds an advisory lock, which ends with it; None where another process has it."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(KEEPALIVES))
        won = connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": lock}).scalar_one()
        yield connection if won else None


def listen(engine: Engine, channel: str, wake: Callable[[str], None]) -> None:
    """Calls `wake` with the payload of each request, and with "" at the begin; a poll is enough without it."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"LISTEN {channel}"))
        wake("")
        driver = connection.connection.driver_connection
        assert driver is not None
        for notification in driver.notifies():
            wake(notification.payload)


def in_background(name: str, work: Callable[[], None], errors: tuple[type[Exception], ...]) -> None:
    """Does something forever, in a thread that ends with the process.

    Args:
        name: of the thread, and in the log.
        work: begun again when it ends.
        errors: that end it; others end the thread.
    """

    def forever() -> None:
        while True:
            try:
                work()
            except errors as error:
                log.info("connection ended", to=name, reason=str(error) or type(error).__name__)
            time.sleep(PAUSE_SECONDS)

    threading.Thread(target=forever, name=name, daemon=True).start()
