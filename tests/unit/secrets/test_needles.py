"""The search for secrets finds what it must, or its silence would prove nothing."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

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
