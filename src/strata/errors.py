"""Errors that a user can act on."""

from __future__ import annotations


class UserError(Exception):
    """An error or a condition outside Strata that the user can fix.

    Args:
        message: what is wrong, with file, key and value where there are any.
        fix: what would be right, or the command to run next.
        see: anchor in docs/troubleshooting.md, where the message is another's and cannot be quoted there.
    """

    see: str | None = None

    def __init__(self, message: str, *, fix: str | None = None, see: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.see = see or self.see

    def __str__(self) -> str:
        return f"{self.message}\n  fix: {self.fix}" if self.fix else self.message
