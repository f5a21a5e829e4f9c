"""Personal access tokens: their text, and the refresh token of the issuer that each of them seals.

The service stores the sealed value alone. Its key is derived from the secret part of the token, which only the user
has, so the database opens nothing without the token, and the token opens nothing without the database.
"""

from __future__ import annotations

import re
import secrets
import string
from dataclasses import dataclass, field
from datetime import datetime

from strata_http.sealing import Sealer

PREFIX = "strata_pat_"
"""Of every token: users, logs' filters and scanners of repositories recognize it."""
ID_CHARACTERS = 12
SECRET_CHARACTERS = 43
"""Letters and digits: more than 256 bits."""
PURPOSE = "personal-access-token"

_ID_ALPHABET = string.ascii_lowercase + string.digits
_SECRET_ALPHABET = string.ascii_letters + string.digits
_TEXT = re.compile(f"{PREFIX}([a-z0-9]{{{ID_CHARACTERS}}})_([A-Za-z0-9]{{{SECRET_CHARACTERS}}})")


@dataclass(frozen=True)
class PersonalToken:
    """A token as the user has it.

    Args:
        id: of its row; no secret.
        secret: of the user.
    """

    id: str
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """What the user passes on in place of a password."""
        return f"{PREFIX}{self.id}_{self.secret}"

    def seal(self, refresh_token: str, expires: datetime) -> str:
        """The refresh token, encrypted.

        Args:
            refresh_token: of the issuer.
            expires: time after which it does not open.
        """
        return self._sealer.seal(self.id, expires.timestamp(), {"refresh_token": refresh_token})

    def open(self, sealed: str) -> str | None:
        """The refresh token; None where the value is another token's, was changed, or has expired."""
        content = self._sealer.open(self.id, sealed)
        return None if content is None else str(content["refresh_token"])

    @property
    def _sealer(self) -> Sealer:
        return Sealer(self.secret, PURPOSE)


def generate() -> PersonalToken:
    """A new token."""
    return PersonalToken(_random(_ID_ALPHABET, ID_CHARACTERS), _random(_SECRET_ALPHABET, SECRET_CHARACTERS))


def is_personal(text: str) -> bool:
    """Whether a text is meant as a personal access token; the issuer need not see it."""
    return text.startswith(PREFIX)


def parse(text: str) -> PersonalToken | None:
    """The token; None for any other text, also for a part of a token."""
    match = _TEXT.fullmatch(text)
    return None if match is None else PersonalToken(*match.groups())


def _random(alphabet: str, characters: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(characters))
