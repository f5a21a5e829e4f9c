"""A pod image is one value, and a text in images.json."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from strata.image_reference import ImageReference
from strata.site.outputs import ImageOutputs

DIGEST = "sha256:" + "0" * 64
TEXT = f"registry.example.org:5000/strata/pause@{DIGEST}"


def test_json_holds_the_text() -> None:
    outputs = ImageOutputs.model_validate_json(json.dumps({"images": {"pause": TEXT}}))
    expected = ImageReference(repository="registry.example.org:5000/strata/pause", digest=DIGEST)
    assert outputs.images == {"pause": expected}
    assert str(outputs.images["pause"]) == TEXT
    assert outputs.model_dump_json() == json.dumps({"images": {"pause": TEXT}}, separators=(",", ":"))


@pytest.mark.parametrize("text", ["", "registry.example.org/pause", "registry.example.org/pause:1.0", f"@{DIGEST}"])
def test_a_tag_is_not_enough(text: str) -> None:
    with pytest.raises(ValidationError):
        ImageReference.model_validate(text)
