"""How long work says what it is doing."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives a line of text each time the work's current wait changes."""

    def update(self, text: str) -> None:
        """Shows `text`, replacing what stood there before."""


class Silent:
    """Progress that nobody watches."""

    def update(self, text: str) -> None:
        """Does nothing."""
