"""Drift of what the Pulumi programs made: a comparison finds whether there is any, a refreshing preview which."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from strata.drift.program_state import is_skipped
from strata.drift_model import ABSENT, MISSING, PRESENT, Drift
from strata.layers import Layer
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.stacks.events import label, urn_name
from strata.stacks.pulumi import Program, preview_steps

LAYERS: Mapping[Program, Layer] = {"cloud": Layer.CLOUD, "platform": Layer.PLATFORM}
_PATH = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|\[(\d+)\]|([^.\[\]]+)')
_REVISION = "checksum"
"""Of a release's chart."""
_LONGEST = 120


def program_drift(context: SiteContext, program: Program) -> list[Drift]:
    """What `up` of a program would do, property by property; `up` skips a program by the same comparison.

    Raises:
        UserError: the layer is not up or cannot be reached.
    """
    if is_skipped(context, program, Silent()):
        return []
    steps = preview_steps(program, context.site, context.paths, Silent(), site_file=context.site_file)
    return [drift for step in steps for drift in step_drift(LAYERS[program], step)]


def step_drift(layer: Layer, step: Mapping[str, Any]) -> list[Drift]:
    """One step of a preview.

    Args:
        layer: of the program.
        step: the metadata of an engine event: op, type, urn, old, new, detailedDiff.
    """
    name = f"{label(step['type'])} {urn_name(step['urn'])}"

    def drift(property_name: str, desired: str, actual: str) -> Drift:
        return Drift(layer=layer, object=name, property=property_name, wanted=desired, found=actual)

    operation = step["op"]
    if operation in ("create", "import"):
        return [drift("state", PRESENT, MISSING)]
    if operation == "delete":
        return [drift("state", ABSENT, PRESENT)]
    if operation not in ("update", "replace"):
        return []
    desired, actual = (step.get("new") or {}).get("inputs", {}), (step.get("old") or {}).get("outputs", {})
    paths = set((step.get("detailedDiff") or {}).keys() or (step.get("diffs") or []))
    if _REVISION in paths and (len(paths) > 1 or not _at(actual, _REVISION)):
        # the substitute plugin empties it if a release was changed or lost an object; the rest names what
        paths.discard(_REVISION)
        if not paths:
            return [drift("revision", "the one that up made", "modified outside Strata")]
    properties = [drift(path, _value(desired, path), _value(actual, path)) for path in sorted(paths)]
    return properties or [drift("state", "as declared", operation)]


def _value(properties: Any, path: str) -> str:
    """The value at a property path, as an operator reads it."""
    value = _at(properties, path)
    if value is None:
        return MISSING
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _at(properties: Any, path: str) -> Any:
    """The value at a Pulumi property path such as `extraSpecs["a:b"]` or `rules[0].port`; None where there is none."""
    value = properties
    for quoted, number, key in _PATH.findall(path):
        try:
            value = value[int(number)] if number else value[json.loads(f'"{quoted}"') if quoted else key]
        except (KeyError, IndexError, TypeError):
            return None
    return value
