"""HTCondor's IDTOKENS, made without HTCondor: JSON Web Tokens whose key is derived from the pool's signing key."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

KEY_NAME = "POOL"
SCRAMBLE = b"\xde\xad\xbe\xef"
"""HTCondor reads files of keys through this mask."""


def idtoken(signing_key: str, identity: str, trust_domain: str, scopes: Sequence[str]) -> str:
    """A token that does not expire, as `condor_token_create` makes it; equal arguments give an equal token.

    Args:
        signing_key: content of the file that SEC_TOKEN_POOL_SIGNING_KEY_FILE names; ASCII.
        identity: `name@domain`.
        trust_domain: TRUST_DOMAIN of the pool.
        scopes: authorizations that the token is limited to, "READ".
    """
    import jwt  # noqa: PLC0415  # few commands make keys

    claims = {
        "iat": 0,
        "iss": trust_domain,
        "jti": identity,
        "scope": " ".join(f"condor:/{scope}" for scope in scopes),
        "sub": identity,
    }
    return jwt.encode(claims, derived_key(signing_key), algorithm="HS256", headers={"kid": KEY_NAME})


def derived_key(signing_key: str) -> bytes:
    """What HTCondor signs with, of the key named POOL."""
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415  # few commands make keys
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415  # few commands make keys

    password = bytes(byte ^ mask for byte, mask in zip(signing_key.encode("ascii"), cycle(SCRAMBLE), strict=False))
    # the key POOL counts twice, as it did in pools with passwords
    return HKDF(SHA256(), 32, salt=b"htcondor", info=b"master jwt").derive(password * 2)
