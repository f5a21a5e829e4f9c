"""The site's secrets in all forms in which they could appear somewhere."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from urllib.parse import quote

import ahocorasick
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

SHORTEST = 16
"""Characters of a form that is looked for; a shorter piece would be found by chance."""


def forms(value: str) -> set[bytes]:
    """A secret plain, in hexadecimal, quoted as in a URL or JSON, and in base64 at any offset."""
    plain = value.encode()
    variants = {plain, plain.hex().encode(), plain.hex().upper().encode(), quote(value, safe="").encode()}
    variants |= {json.dumps(value)[1:-1].encode()}
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + plain)
        # without the characters that also depend on what is before and after
        inner = encoded[(0, 2, 3)[shift] : len(encoded) - (0 if (shift + len(plain)) % 3 == 0 else 4)]
        variants |= {inner, inner.translate(bytes.maketrans(b"+/", b"-_"))}
    return {form for form in variants if len(form) >= SHORTEST}


def distinctive(value: str) -> str:
    """A piece of a secret on one line: of a private key in PEM the line with the middle of what is private.

    Its other lines hold what is public, or what all keys of its kind have alike.
    """
    lines = value.strip().splitlines()
    if len(lines) <= 2:
        return lines[0]
    body = lines[1:-1]
    try:
        private = private_part(value.encode())
    except ValueError:
        return max(body, key=len)
    middle = (base64.b64decode("".join(body)).index(private) + len(private) // 2) * 4 // 3
    return next(line for line, end in zip(body, accumulate(map(len, body)), strict=True) if middle < end)


def private_part(text: bytes) -> bytes:
    """The number or seed that a private key keeps to itself, as in the key's encoding.

    Raises:
        ValueError: it is not a private key in PEM or of OpenSSH.
    """
    load = load_ssh_private_key if b"OPENSSH" in text else load_pem_private_key
    key = load(text, None)
    if isinstance(key, Ed25519PrivateKey):
        return key.private_bytes_raw()
    if isinstance(key, EllipticCurvePrivateKey):
        return key.private_numbers().private_value.to_bytes((key.key_size + 7) // 8, "big")
    if isinstance(key, RSAPrivateKey):
        exponent = key.private_numbers().d
        return exponent.to_bytes((exponent.bit_length() + 7) // 8, "big")
    raise ValueError(f"no kind of key that is known here: {type(key).__name__}")


@dataclass
class Needles:
    """What is looked for.

    Args:
        secrets: name to value.
    """

    secrets: Mapping[str, str] = field(repr=False)  # pytest prints the arguments of a test that fails
    _names: dict[bytes, str] = field(init=False, repr=False)
    _forms: ahocorasick.Automaton = field(init=False, repr=False)

    def __post_init__(self) -> None:
        pieces = {name: distinctive(value) for name, value in self.secrets.items()}
        self._names = {form: name for name, piece in pieces.items() for form in forms(piece)}
        assert set(self._names.values()) == set(self.secrets), "a secret is too short to be looked for"
        # a regular expression tries all forms at each byte: it takes ten times as long
        self._forms = ahocorasick.Automaton()
        for form, name in self._names.items():
            self._forms.add_word(form.decode("latin-1"), name)
        self._forms.make_automaton()

    def patterns(self) -> str:
        """All forms, one a line, for `grep --fixed-strings --file`."""
        return "".join(form.decode() + "\n" for form in self._names)

    def named(self, form: str) -> str:
        """Which secret grep has found."""
        return self._names[form.encode()]

    def found(self, content: bytes | str) -> set[str]:
        """Names of the secrets in a text."""
        data = content.encode(errors="surrogateescape") if isinstance(content, str) else content
        return {name for _, name in self._forms.iter(data.decode("latin-1"))}

    def found_in(self, contents: Iterable[tuple[str, bytes]]) -> dict[str, set[str]]:
        """Place to the secrets in it."""
        return {place: names for place, content in contents if (names := self.found(content))}


def helm_release(data: str) -> bytes:
    """The content of a Helm release's Secret: JSON, gzip, base64 of Helm, base64 of Kubernetes."""
    return gzip.decompress(base64.b64decode(base64.b64decode(data)))
