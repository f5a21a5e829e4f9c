"""Values that pass through browsers, and that only the service can make, read and change: cookies, codes, state."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from typing import Any

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_BYTES = 32


class Sealer:
    """Encrypts and authenticates values of one purpose; a value of another purpose does not open.

    Args:
        secret: of the service, the same in all its processes.
        purpose: constant in the code, "session".
    """

    def __init__(self, secret: str, purpose: str) -> None:
        key = HKDF(SHA256(), KEY_BYTES, salt=None, info=purpose.encode()).derive(secret.encode())
        self._fernet = Fernet(base64.urlsafe_b64encode(key))

    def seal(self, audience: str, ends: float, content: Mapping[str, Any]) -> str:
        """The value, in characters of cookies and URLs.

        Args:
            audience: the only one that it opens for, such as a host.
            ends: time after which it does not open, in seconds since 1970.
            content: JSON.
        """
        text = json.dumps({"audience": audience, "ends": ends, "content": content}, separators=(",", ":"))
        return self._fernet.encrypt(text.encode()).decode()

    def open(self, audience: str, sealed: str) -> dict[str, Any] | None:
        """The content; None where the value is forged, changed, too old, or of another purpose or audience."""
        try:
            payload = json.loads(self._fernet.decrypt(sealed.encode()))
        except (InvalidToken, ValueError):
            return None
        if payload["audience"] != audience or payload["ends"] <= time.time():
            return None
        content: dict[str, Any] = payload["content"]
        return content
