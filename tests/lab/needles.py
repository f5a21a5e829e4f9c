"""The site's secrets in all forms in which they could stand somewhere."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

SHORTEST = 16
"""Characters of a form that is looked for; a shorter piece would be found by chance."""


def forms(value: str) -> set[bytes]:
    """A secret plain, in hexadecimal, quoted as in a URL or JSON, and in base64 at any offset."""
    plain = value.encode()
    found = {plain, plain.hex().encode(), plain.hex().upper().encode(), quote(value, safe="").encode()}
    found |= {json.dumps(value)[1:-1].encode()}
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + plain)
        # without the characters that also depend on what stands before and after
        inner = encoded[(0, 2, 3)[shift] : len(encoded) - (0 if (shift + len(plain)) % 3 == 0 else 4)]
        found |= {inner, inner.translate(bytes.maketrans(b"+/", b"-_"))}
    return {form for form in found if len(form) >= SHORTEST}


def distinctive(value: str) -> str:
    """A piece of a secret that stands on one line: of a PEM text the longest inside its frame, which all have alike."""
    lines = value.strip().splitlines()
    return max(lines[1:-1] or lines, key=len) if len(lines) > 2 else lines[0]


@dataclass
class Needles:
    """What is looked for.

    Args:
        secrets: name to value.
    """

    secrets: Mapping[str, str]
    _names: dict[bytes, str] = field(init=False, repr=False)
    _pattern: re.Pattern[bytes] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        pieces = {name: distinctive(value) for name, value in self.secrets.items()}
        self._names = {form: name for name, piece in pieces.items() for form in forms(piece)}
        assert set(self._names.values()) == set(self.secrets), "a secret is too short to be looked for"
        self._pattern = re.compile(b"|".join(re.escape(form) for form in self._names))

    def patterns(self) -> str:
        """All forms, one a line, for `grep --fixed-strings --file`."""
        return "".join(form.decode() + "\n" for form in self._names)

    def named(self, form: str) -> str:
        """Which secret grep has found."""
        return self._names[form.encode()]

    def found(self, content: bytes | str) -> set[str]:
        """Names of the secrets in a text."""
        data = content.encode(errors="surrogateescape") if isinstance(content, str) else content
        return {self._names[match.group()] for match in self._pattern.finditer(data)}

    def found_in(self, contents: Iterable[tuple[str, bytes]]) -> dict[str, set[str]]:
        """Place to the secrets that stand there."""
        return {place: names for place, content in contents if (names := self.found(content))}


def helm_release(data: str) -> bytes:
    """The content of a Helm release's Secret: JSON, gzip, base64 of Helm, base64 of Kubernetes."""
    return gzip.decompress(base64.b64decode(base64.b64decode(data)))
