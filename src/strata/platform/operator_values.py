"""What the operator sets in a release's values: inventories/<site>/values/<release>.yaml, over what Strata writes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from strata.catalogue.service import Values
from strata.errors import UserError
from strata.site_file.problems import suggestion

DIRECTORY = "values"
SHOWN_VALUE = 80
"""Characters of a value that a message repeats."""


def has_values(site_file: Path) -> bool:
    """Whether the operator sets any values."""
    return (site_file.parent / DIRECTORY).is_dir()


def operator_values(site_file: Path, release: str) -> Values:
    """The values that the operator sets for a release; empty where there is no file.

    Raises:
        UserError: the file cannot be read, or holds no mapping.
    """
    file = site_file.parent / DIRECTORY / f"{release}.yaml"
    if not file.exists():
        return {}
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(
            f"{file}: cannot be read: {error}",
            fix="write YAML, as `helm --values` takes it",
            see="a-values-file-is-refused",
        ) from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UserError(
            f"{file}: is not a mapping",
            fix="write `key: value`, as in the chart's values.yaml",
            see="a-values-file-is-refused",
        )
    return content


def merged(base: Any, over: Any) -> Any:
    """Values with others on top, as helm merges files; null stays, and has helm remove the chart's default."""
    if isinstance(base, dict) and isinstance(over, dict):
        return base | {key: merged(base.get(key), value) for key, value in over.items()}
    return over


def has_null(values: Any) -> bool:
    """Whether values remove any of the chart's defaults."""
    if isinstance(values, dict):
        return any(value is None or has_null(value) for value in values.values())
    return False


def _without_null(values: Any) -> Any:
    """What helm compares with the chart's schema: keys that are null are gone by then."""
    if isinstance(values, dict):
        return {key: _without_null(value) for key, value in values.items() if value is not None}
    return values


def check_operator_values(site_file: Path, chart_of: Mapping[str, tuple[str, Path | None]]) -> None:
    """Refuses what no release takes.

    Args:
        site_file: the values are in a folder beside it.
        chart_of: release to name and directory of its chart; None where it has not been fetched yet, and its schema is
            not known.

    Raises:
        UserError: with every error in these files.
    """
    directory = site_file.parent / DIRECTORY
    problems: list[str] = []
    fixes: list[str] = []
    for file in sorted(directory.iterdir()) if directory.is_dir() else ():
        release = file.name.removesuffix(".yaml")
        if not file.name.endswith(".yaml") or release not in chart_of:
            problems.append(f"{file}: the site has no release of that name; it has {', '.join(chart_of)}")
            fixes.append(suggestion(release, list(chart_of), "releases"))
            continue
        chart, at = chart_of[release]
        for key, value, why in _errors(at, operator_values(site_file, release)):
            problems.append(f"{file}: {key}: {value} — {why}")
            fixes.append(f"values.yaml of the chart {chart} describes each value")
    if problems:
        raise UserError("\n".join(problems), fix="; ".join(dict.fromkeys(fixes)), see="a-values-file-is-refused")


def _errors(directory: Path | None, values: Values) -> Iterable[tuple[str, str, str]]:
    """Key, value and reason of whatever the chart's schema refuses."""
    file = directory / "values.schema.json" if directory else None
    if not values or file is None or not file.exists():
        return
    import jsonschema  # noqa: PLC0415  # few sites have such values

    validator = jsonschema.Draft7Validator(_without_required(json.loads(file.read_text())))
    errors = validator.iter_errors(_without_null(values))
    for error in sorted(errors, key=lambda e: [str(step) for step in e.absolute_path]):
        shown = json.dumps(error.instance, default=str)
        key = ".".join(str(step) for step in error.absolute_path) or "values"
        yield key, shown if len(shown) <= SHOWN_VALUE else shown[: SHOWN_VALUE - 1] + "…", error.message[:200]


def _without_required(schema: Any) -> Any:
    """A schema for a part of the values: Strata's own add the rest."""
    if isinstance(schema, dict):
        return {k: _without_required(v) for k, v in schema.items() if not (k == "required" and isinstance(v, list))}
    return [_without_required(item) for item in schema] if isinstance(schema, list) else schema
