"""JSON Schema of a site file, for editors."""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from strata.models.site import Site

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Schema(GenerateJsonSchema):
    schema_dialect = DIALECT

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  # the base class names it
        """Titles would only repeat the keys."""
        return False


def site_schema() -> dict[str, Any]:
    """The schema as plain values."""
    schema = Site.model_json_schema(schema_generator=_Schema)
    return {
        "$schema": DIALECT,
        "title": "Strata site",
        **{k: v for k, v in schema.items() if k not in ("$schema", "title")},
    }


def schema_text() -> str:
    """What docs/reference/site.schema.json holds."""
    return json.dumps(site_schema(), indent=1, ensure_ascii=False) + "\n"
