"""The search for secrets finds what it must, or its silence would show nothing."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from urllib.parse import quote

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from ...lab.needles import Needles

SECRET = 'kq0F-x_9"ä/Z+81mNtR%23vLpQ'
KEY = (
    "-----BEGIN PRIVATE KEY-----\n"
    + "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg\n" * 2
    + "-----END PRIVATE KEY-----\n"
)
NEEDLES = Needles({"password": SECRET, "key": KEY})


@pytest.mark.parametrize("before", ["", "a", "ab", "abc", "user:"])
@pytest.mark.parametrize("after", ["", "x", "yz", "@host"])
def test_every_form_is_found(before: str, after: str) -> None:
    text = before + SECRET + after
    assert NEEDLES.found(text) == {"password"}
    assert NEEDLES.found(base64.b64encode(text.encode())) == {"password"}
    assert NEEDLES.found(base64.urlsafe_b64encode(text.encode())) == {"password"}
    assert NEEDLES.found(text.encode().hex()) == {"password"}
    assert NEEDLES.found(quote(text, safe="")) == {"password"}
    assert NEEDLES.found(json.dumps({"a": text})) == {"password"}


def test_a_key_is_found_in_base64_and_json() -> None:
    assert NEEDLES.found(base64.b64encode(KEY.encode())) == {"key"}
    assert NEEDLES.found(json.dumps(KEY)) == {"key"}
    assert NEEDLES.found("-----BEGIN PRIVATE KEY-----\nanother\n-----END PRIVATE KEY-----") == set()


def elliptic() -> PrivateKeyTypes:
    return ec.generate_private_key(ec.SECP256R1())


@pytest.mark.parametrize(
    ("generate", "layout"),
    [
        (ed25519.Ed25519PrivateKey.generate, PrivateFormat.OpenSSH),  # the site's SSH key
        (elliptic, PrivateFormat.PKCS8),  # the store's certificates
        (elliptic, PrivateFormat.TraditionalOpenSSL),  # kubeadm's
        (lambda: rsa.generate_private_key(65537, 2048), PrivateFormat.TraditionalOpenSSL),
    ],
)
def test_a_key_is_distinguished_from_another_and_from_its_public_half(
    generate: Callable[[], PrivateKeyTypes], layout: PrivateFormat
) -> None:
    key, other = generate(), generate()
    text, another = (k.private_bytes(Encoding.PEM, layout, NoEncryption()).decode() for k in (key, other))
    needles = Needles({"key": text})
    assert needles.found(text) == needles.found(json.dumps(text)) == {"key"}
    assert needles.found(base64.b64encode(b"key: " + text.encode())) == {"key"}
    assert needles.found(another) == set()
    public = key.public_key()
    assert needles.found(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)) == set()
    assert needles.found(public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)) == set()
