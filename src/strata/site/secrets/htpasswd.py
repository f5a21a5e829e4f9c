"""Password files of the registry: bcrypt, which is all that it reads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import bcrypt

ROUNDS = 4
"""bcrypt's fewest: the registry hashes at every request, and a generated password of 192 bits cannot be guessed."""


def htpasswd(passwords: Mapping[str, str]) -> str:
    """Lines `user:hash`, the same for the same passwords, so that an unchanged file stays as it is."""
    return "".join(f"{user}:{_hash(user, password)}\n" for user, password in passwords.items())


def _hash(user: str, password: str) -> str:
    # 21 characters of bcrypt's alphabet, and one that leaves the unused bits zero
    salt = hashlib.sha256(f"{user}\0{password}".encode()).hexdigest()[:21] + "e"
    return bcrypt.hashpw(password.encode(), f"$2b${ROUNDS:02d}${salt}".encode()).decode()
