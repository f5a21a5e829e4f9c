"""Who may have tokens: the clients of the lab, from a mounted file."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError

MINIMUM_SECRET_LENGTH = 16


class UnusableClients(ValueError):
    """The clients file cannot be used; the text names the client and the field, never a secret."""


class Client(BaseModel):
    """One client."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    secret: SecretStr = Field(min_length=MINIMUM_SECRET_LENGTH, description="Its secret, 16 characters or more.")
    audiences: tuple[str, ...] = Field(
        min_length=1, description="Services that its tokens are for; the first is usual."
    )
    scopes: tuple[str, ...] = Field(default=(), description="Scopes that it may ask for.")


def _digest(text: str) -> bytes:
    """Equal lengths, so that the comparison does not tell the secret's."""
    return hashlib.sha256(text.encode()).digest()


class Clients:
    """All clients by their ids.

    Args:
        by_id: the clients.
    """

    def __init__(self, by_id: dict[str, Client]) -> None:
        self._by_id = by_id
        # compared with where the id is unknown, so that the answer takes the same time
        self._nobody = SecretStr(secrets.token_urlsafe(32))

    @classmethod
    def read(cls, file: Path) -> Clients:
        """Reads a JSON object of client ids.

        Raises:
            UnusableClients: no JSON, a wrong field, or no client at all.
        """
        try:
            by_id = TypeAdapter(dict[str, Client]).validate_python(json.loads(file.read_text()))
        except json.JSONDecodeError as error:
            raise UnusableClients(f"{file}: is no JSON (line {error.lineno})") from None
        except ValidationError as error:
            lines = [f"{'.'.join(str(p) for p in e['loc'])}: {e['msg']}" for e in error.errors(include_input=False)]
            raise UnusableClients(f"{file}: " + "; ".join(lines)) from None
        if not by_id:
            raise UnusableClients(f"{file}: names no client")
        return cls(by_id)

    def authenticate(self, client_id: str, secret: str) -> Client | None:
        """The client, when its secret is right; in constant time."""
        client = self._by_id.get(client_id)
        expected = client.secret if client else self._nobody
        right = hmac.compare_digest(_digest(expected.get_secret_value()), _digest(secret))
        return client if client and right else None
