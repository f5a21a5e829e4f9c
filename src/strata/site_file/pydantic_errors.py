"""From pydantic's errors to problems that name a fix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from strata.models import suggestions
from strata.models.key_path import KeyPath, dotted
from strata.models.site import Site
from strata.site_file.document import Document, may_be_secret
from strata.site_file.problems import MAXIMUM, Problem, shorten, similar, suggestion

_FOLLOW_UPS = frozenset({"default_factory_not_called"})
"""Errors that only follow from another one."""

_OR_REMOVE = ", or remove the line"

_TEXTS: Mapping[str, tuple[str, str]] = {
    "string_type": ("must be text", 'put it in quotes: "…"'),
    "int_type": ("must be a whole number", "for instance 2, without quotes"),
    "int_from_float": ("must be a whole number", "for instance 2"),
    "int_parsing": ("must be a whole number", "for instance 2"),
    "path_type": ("must be a path", "for instance ~/.config/strata/token"),
    "model_type": ("must be a mapping of keys", "write its keys below it, indented"),
    "model_attributes_type": ("must be a mapping of keys", "write its keys below it, indented"),
    "dict_type": ("must be a mapping", "for instance {v100: 2}"),
    "tuple_type": ("must be a list", "for instance [a, b]"),
    "string_too_short": ("must not be empty", "write a value"),
    "string_pattern_mismatch": ("has characters that are not allowed here", 'for instance "12"'),
}


def field_model(path: KeyPath) -> type[BaseModel] | None:
    """The model whose keys are at a path of a site file, None where there is none."""
    current: Any = Site
    for step in path:
        if isinstance(step, int):
            current = _argument(current, tuple)
        elif isinstance(current, type) and issubclass(current, BaseModel):
            field = current.model_fields.get(step)
            current = None if field is None else field.annotation
        else:
            return None
        current = strip_optional(current)
    return current if isinstance(current, type) and issubclass(current, BaseModel) else None


def strip_optional(annotation: Any) -> Any:
    """The type without `| None` and `Annotated`."""
    while hasattr(annotation, "__metadata__"):
        annotation = annotation.__origin__
    choices = [a for a in get_args(annotation) if a is not type(None)]
    if type(None) in get_args(annotation) and len(choices) == 1:
        return strip_optional(choices[0])
    return annotation


def _argument(annotation: Any, container: type) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is container else None


def placements(document: Document, path: KeyPath) -> list[KeyPath]:
    """Paths at which an unknown key probably belongs; several where they are equally likely. Not those inside lists.

    Its value fits there, nothing is there yet, the way is short, the section is there: in this order.

    Args:
        document: the file.
        path: of the key, at a wrong place.
    """
    key, value = str(path[-1]), _value(document, path)

    def rank(place: KeyPath) -> tuple[bool, bool, int, bool]:
        there = _there(document.data, place[:-1])
        taken = there and key in _inside(document.data, place[:-1])
        common = _common(place[:-1], path[:-1])
        return not _fits(place, value), taken, len(place) + len(path) - 2 * common, not there

    ranked = [(rank(place), place) for place in _sections().get(key, ()) if place != path]
    best = min((order for order, _ in ranked), default=None)
    return [place for order, place in ranked if order == best]


def _common(one: KeyPath, other: KeyPath) -> int:
    """Steps that two paths share at their beginning."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _fits(place: KeyPath, value: object) -> bool:
    """Whether a value is right at a place."""
    model = field_model(place[:-1])
    assert model is not None, "_sections() walks through models"
    try:
        model.model_validate({place[-1]: value})
    except ValidationError as error:
        return not any(detail["loc"][:1] == place[-1:] for detail in error.errors(include_url=False))
    return True


def _inside(data: Any, path: KeyPath) -> Any:
    for step in path:
        data = data[step]
    return data


def _there(data: object, path: KeyPath) -> bool:
    for step in path:
        if not isinstance(data, dict) or step not in data:
            return False
        data = data[step]
    return isinstance(data, dict)


@cache
def _sections() -> Mapping[str, tuple[KeyPath, ...]]:
    """Key to the paths of it that lead through mappings only."""
    sections: dict[str, tuple[KeyPath, ...]] = {}
    for path in _walk(Site, ()):
        sections[str(path[-1])] = (*sections.get(str(path[-1]), ()), path)
    return sections


def _walk(model: type[BaseModel], path: KeyPath) -> Iterator[KeyPath]:
    for name, field in model.model_fields.items():
        yield (*path, name)
        inner = strip_optional(field.annotation)
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _walk(inner, (*path, name))


def model_problems(document: Document, error: ValidationError) -> tuple[list[Problem], list[KeyPath]]:
    """Problems, and the paths at which data is wrong (for cross-checks on the rest)."""
    details = _causes(error)
    unknown_kind = any(detail["type"] == "accelerator_kind" for detail in details)
    if unknown_kind and ("accelerator_kinds",) in meant_paths(document, error):
        # what they describe is unknown only because the key is misspelt or misplaced
        details = [detail for detail in details if detail["type"] != "accelerator_kind"]
    misspelt = _misspelt(details)
    paths = [_path(d) for d in details]
    reported = {p.key for p in document.mistakes}
    problems: list[Problem] = []
    for detail, path in zip(details, paths, strict=True):
        if len(problems) == MAXIMUM:
            break
        if detail["type"] == "missing" and path in misspelt:
            continue  # reported as the misspelt key
        problem = _problem(document, detail, path)
        if problem.key not in reported:
            problems.append(problem)
            reported.add(problem.key)  # a key and its value may be wrong: the first is enough
    return problems, paths


def meant_paths(document: Document, error: ValidationError) -> list[KeyPath]:
    """Where unknown keys probably belong; what seems to be missing there may only be misspelt or misplaced."""
    paths: list[KeyPath] = []
    for detail in error.errors(include_url=False)[:MAXIMUM]:
        if detail["type"] == "extra_forbidden":
            path = _path(detail)
            model = field_model(path[:-1])
            meant = similar(str(path[-1]), list(model.model_fields) if model else [])
            paths += [(*path[:-1], meant)] if meant is not None else []
            paths += placements(document, path)
    return paths


def _causes(error: ValidationError) -> list[ErrorDetails]:
    """Errors without those that only follow from others, from the top of the model down."""
    details = [d for d in error.errors(include_url=False) if d["type"] not in _FOLLOW_UPS]
    wrong_inside = {d["loc"][:length] for d in details for length in range(len(d["loc"]))}
    # a length counts only the entries that are right
    return [d for d in details if d["type"] != "too_short" or d["loc"] not in wrong_inside]


def _path(detail: ErrorDetails) -> KeyPath:
    path = tuple(step for step in detail["loc"] if step != "[key]")
    key = detail.get("ctx", {}).get("key")
    return (*path, key) if key is not None else path


def _misspelt(details: Sequence[ErrorDetails]) -> set[KeyPath]:
    """Paths of the required keys that are there under a wrong name."""
    missing: dict[KeyPath, list[str]] = {}
    for detail in details:
        if detail["type"] == "missing":
            path = _path(detail)
            missing.setdefault(path[:-1], []).append(str(path[-1]))
    paths: set[KeyPath] = set()
    for detail in details:
        parent = _path(detail)[:-1]
        if detail["type"] == "extra_forbidden" and parent in missing:
            meant = similar(str(_path(detail)[-1]), missing[parent])
            if meant is not None:
                paths.add((*parent, meant))
    return paths


def _problem(document: Document, detail: ErrorDetails, path: KeyPath) -> Problem:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        model = field_model(path[:-1])
        return document.problem(path, "is not a known key", _unknown_key(document, path, model))
    if kind == "missing":
        return document.problem(path, "is missing", _example(path))
    if kind == "literal_error":
        choices = _choices(path)
        word = str(detail["input"])
        listed = f" The choices: {', '.join(choices)}" if similar(word, choices) is not None else ""
        return document.problem(path, "is not one of the choices", suggestion(word, choices, "choices") + listed)
    if kind == "accelerator_kind":
        return document.problem(path, str(detail["msg"]), _joined(document, path) or str(context["fix"]))
    if (fix := suggestions.general(detail["input"])) is not None and path:
        return document.problem(path, _TEXTS.get(kind, (str(detail["msg"]),))[0], fix)
    if kind in ("greater_than_equal", "less_than_equal"):
        bound = context.get("ge", context.get("le"))
        word = "at least" if "ge" in context else "at most"
        return document.problem(path, f"must be {word} {bound}", f"a whole number, {word} {bound}")
    if kind in ("too_short", "too_long", "string_too_long"):
        bound = context.get("min_length", context.get("max_length"))
        word = "at least" if kind == "too_short" else "at most"
        noun = "characters" if kind == "string_too_long" else "entries" if bound != 1 else "entry"
        fix = "add an entry" if kind == "too_short" else "shorten it"
        return document.problem(path, f"must have {word} {bound} {noun}", fix)
    if detail["input"] is None and kind in _TEXTS:
        if kind == "string_type":
            return document.problem(path, "is empty", "write a value" + ("" if _required(path) else _OR_REMOVE))
        return document.problem(path, "is empty", f"write a value{_OR_REMOVE}; {_TEXTS[kind][1]}")
    if kind in _TEXTS:
        why, fix = _TEXTS[kind]
        return document.problem(path, why, _rewritten(kind, detail["input"]) or fix)
    return document.problem(path, detail["msg"], str(context.get("fix", "see docs/reference/site.md")))


def _required(path: KeyPath) -> bool:
    model = field_model(path[:-1])
    field = model.model_fields.get(str(path[-1])) if model else None
    return field is None or field.is_required()


def _rewritten(kind: str, value: object) -> str | None:
    """The wrong value in its right form, if that is known."""
    if kind.startswith("int"):
        return suggestions.number(value)
    if kind == "string_type" and isinstance(value, bool | int | float):
        return f'put it in quotes: "{shorten(value)}"'
    if kind == "tuple_type":
        if isinstance(value, str) and len(value) < suggestions.LONGEST:
            return f"in brackets: [{value}]"
        return "begin each entry with a dash: - …" if isinstance(value, dict) else None
    return None


def _value(document: Document, path: KeyPath) -> object:
    """The value at a path; "" where there is none."""
    try:
        return document.value(path)
    except KeyError:
        return ""


def _joined(document: Document, path: KeyPath) -> str | None:
    """The fix of {v100:2}, which YAML reads as the key `v100:2` without a value."""
    key, colon, value = str(path[-1]).partition(":")
    existing = _value(document, path)
    return f"put a space after the colon: {key[:80]}: {value[:80]}" if colon and value and existing is None else None


def _unknown_key(document: Document, path: KeyPath, model: type[BaseModel] | None) -> str:
    """What to do about a key that is not known at its place."""
    key, keys = str(path[-1]), list(model.model_fields) if model else []
    if joined := _joined(document, path):
        return joined
    near, places = similar(key, keys), placements(document, path)
    # one level too high or too low, which the indentation of a line decides
    in_line = bool(places) and _fits(places[0], _value(document, path))
    in_line &= all(_common(p[:-1], path[:-1]) == min(len(p), len(path)) - 1 for p in places)
    if may_be_secret(path) and not in_line and (near is None or key == "value"):
        return "remove it; a site file has, below secrets:, where a secret is, never the secret"
    if in_line or (near is None and places):
        above = " or ".join(dotted(place[:-1]) for place in places)
        return f"indent it so that it is below {above}" if above else "begin its line without indentation"
    return suggestion(key, keys, "keys here")


def _example(path: KeyPath) -> str:
    model = field_model(path[:-1])
    field = model.model_fields.get(str(path[-1])) if model else None
    description = f" ({field.description})" if field and field.description else ""
    return f"add {path[-1]}: …{description}"


def _choices(path: KeyPath) -> list[str]:
    parent, name = path[:-1], path[-1]
    if isinstance(name, int):
        parent, name = path[:-2], path[-2]
    model = field_model(parent)
    field = model.model_fields.get(str(name)) if model else None
    annotation = strip_optional(field.annotation) if field else None
    if get_origin(annotation) is tuple:
        annotation = get_args(annotation)[0]
    return [str(c) for c in get_args(annotation)] if get_origin(annotation) is Literal else []
