"""Wrong site files computed from the JSON Schema of the model: a new key is spoilt as soon as it is in the schema.

The schema decides, not the loader: a value is wrong where jsonschema refuses it, and then the loader must refuse it at
that key, in its line, with nothing else reported. Conflicts, whose parts are each right, are computed from
what the schema shows of relations: entries with a name, texts of any form, which are names of something else, and keys
that no right site has in parallel.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jsonschema

Path = tuple[str | int, ...]
Schema = dict[str, Any]

ANYTHING: tuple[Any, ...] = (
    *(None, True, 0, -1, 7, 10**9, 10**30, 1.5),
    *(
        "",
        " ",
        "nothing like it",
        "a b",
        "-",
        "ä",
        "7",
        "UPPER",
        "under_score",
        "../..",
        "http://x",
        "10.0.0.300",
        "x" * 5000,
    ),
    *([], ["a"], [[]], [None], {}, {"a": 1}, {"": ""}),
)
"""Values of all types; for each key those are taken that its schema refuses."""


REMARKS = ("description", "examples")
"""Keywords of a schema that allow and forbid nothing."""


@dataclass(frozen=True)
class Spoilt:
    """A wrong site.

    Args:
        title: what is wrong, for people.
        text: the YAML.
        key: dotted path at which the problem must be reported, or below it.
        line: where; 1-based.
        why: part of the reason, "" where the schema does not tell.
        fix: part of the fix, likewise.
    """

    title: str
    text: str
    key: str
    line: int
    why: str = ""
    fix: str = ""


@dataclass(frozen=True)
class Key:
    """A key that can be spoilt.

    Args:
        path: where it is, or could be.
        schema: of its value.
        required: whether it may not be missing.
        section: identity of the schema's mapping of keys that it is one of; None in free mappings and lists.
    """

    path: Path
    schema: Schema
    required: bool
    section: int | None = None


def dotted(path: Path) -> str:
    """cloud.flavors[0].memory."""
    return "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in path).removeprefix(".")


@functools.cache
def _text(value: str) -> str:
    """A text in quotes; every spoilt site writes nearly the same ones."""
    return json.dumps(value, ensure_ascii=False)


class Writer:
    """Writes YAML with a key or a list entry per line, and knows their lines."""

    def __init__(self, data: dict[str, Any], twice: Path | None = None) -> None:
        self.lines: list[str] = []
        self.places: dict[Path, int] = {(): 1}
        self._twice = twice
        self._mapping(data, (), 0)

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def _mapping(self, data: dict[str, Any], path: Path, indent: int) -> None:
        for key, value in data.items():
            for _ in range(2 if (*path, key) == self._twice else 1):
                self.lines.append(" " * indent + f"{_text(key)}:")
                self.places[(*path, key)] = len(self.lines)
                self._value(value, (*path, key), indent + 2)

    def _value(self, value: Any, path: Path, indent: int) -> None:
        if isinstance(value, dict) and value:
            self._mapping(value, path, indent)
        elif isinstance(value, list) and value:
            for index, entry in enumerate(value):
                self.lines.append(" " * indent + "-")
                self.places[(*path, index)] = len(self.lines) + (1 if isinstance(entry, dict | list) and entry else 0)
                self._value(entry, (*path, index), indent + 2)
        else:
            self.lines[-1] += f" {_text(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"


class Spoiler:
    """Spoils a right site, key by key.

    Args:
        schema: of a whole site.
        site: one that it accepts.
    """

    def __init__(self, schema: Schema, site: dict[str, Any]) -> None:
        self._schema, self._site = schema, site
        jsonschema.Draft202012Validator(schema).validate(site)

    def all_keys(self) -> Iterator[Key]:
        """Each key that can be in the site's sections, and the first entry of each list."""
        yield from self._keys((), self._schema, self._site)

    def _keys(self, path: Path, schema: Schema, value: Any) -> Iterator[Key]:
        schema = self._of(schema, value)
        if isinstance(value, dict) and "properties" in schema:
            for key, inner in schema["properties"].items():
                yield Key((*path, key), inner, key in schema.get("required", ()), id(schema["properties"]))
                if key in value:
                    yield from self._keys((*path, key), inner, value[key])
        elif isinstance(value, dict) and isinstance(schema.get("additionalProperties"), dict):
            for key in value:
                yield Key((*path, key), schema["additionalProperties"], False)
        elif isinstance(value, list) and value:
            yield Key((*path, 0), schema["items"], False)
            yield from self._keys((*path, 0), schema["items"], value[0])

    def _of(self, schema: Schema, value: Any) -> Schema:
        """The schema without references, and of alternatives the one that fits the value."""
        if "$ref" in schema:
            return self._of(self._schema["$defs"][schema["$ref"].rpartition("/")[2]], value)
        for alternative in schema.get("anyOf", ()):
            if self._accepts(alternative, value):
                return self._of(alternative, value)
        return schema

    def _accepts(self, schema: Schema, value: Any) -> bool:
        whole = {**schema, "$defs": self._schema["$defs"]}
        checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
        return jsonschema.Draft202012Validator(whole, format_checker=checker).is_valid(value)

    def spoil(self, key: Key) -> Iterator[Spoilt]:
        """Every way in which one key can be wrong for itself."""
        path, schema, required = key.path, key.schema, key.required
        section = any("properties" in part for part in self._parts(schema))
        for value in (*ANYTHING, *self._bounds(schema)):
            if section and isinstance(value, dict):
                continue  # takes the keys away that others need; unknown keys are spoilt one by one
            if not self._accepts(schema, value):
                yield self._spoilt(f"{dotted(path)} = {str(value)[:30]}", path, self._with(path, value))
        if isinstance(path[-1], int):
            return
        beside = (*path[:-1], f"{path[-1]}x")
        parent = self._at(path[:-1], self._schema, self._site)
        if "properties" in parent:
            fix = f"did you mean {path[-1]}?"
            site = self._with(beside, 1)
            yield self._spoilt(f"{dotted(beside)} beside it", beside, site, "is not a known key", fix)
        if self._there(path):
            writer = Writer(self._site, twice=path)
            yield Spoilt(f"{dotted(path)} twice", writer.text, dotted(path), writer.places[path], "duplicate", "remove")
        if required:
            site = self._copied(path)
            del self._parent(site, path)[path[-1]]
            writer = Writer(site)
            place = writer.places[path[:-1]]
            yield Spoilt(
                f"{dotted(path)} missing", writer.text, dotted(path), place, "is missing", f"add {path[-1]}: …"
            )

    def conflicts(self, key: Key) -> Iterator[Spoilt]:
        """The ways in which a key, right for itself, can contradict others as far as the schema shows."""
        if not self._there(key.path):
            return
        path, value = key.path, self._parent(self._site, key.path)[key.path[-1]]
        if isinstance(value, list) and value and key.schema.get("uniqueItems") is not False:
            again, site = (*path, len(value)), self._with(path, [*value, value[0]])
            first = value[0] if isinstance(value[0], dict) else {}
            identity = [key for key in ("name", "id") if key in first][:1]
            yield self._spoilt(f"{dotted(again)} as [0]", (*again, *identity), site, "duplicate")
        if {word: key.schema[word] for word in key.schema if word not in REMARKS} == {"type": "string"}:
            site = self._with(path, f"{value}-2")
            yield self._spoilt(f"{dotted(path)} of nothing", path, site, "is no")

    def sections(self) -> Iterator[tuple[int, Path, dict[str, Any]]]:
        """Each section of the site, also in further entries of lists: identity as in `Key`, path, content."""
        yield from self._sections((), self._schema, self._site)

    def _sections(self, path: Path, schema: Schema, value: Any) -> Iterator[tuple[int, Path, dict[str, Any]]]:
        schema = self._of(schema, value)
        if isinstance(value, dict) and "properties" in schema:
            yield id(schema["properties"]), path, value
            for key in value:
                yield from self._sections((*path, key), schema["properties"][key], value[key])
        elif isinstance(value, list):
            for index, entry in enumerate(value):
                yield from self._sections((*path, index), schema["items"], entry)

    def beside(self, path: Path, key: str, value: Any) -> Spoilt:
        """The site with one key more in a section."""
        return self._spoilt(f"{dotted(path)} with {key}", path, self._with((*path, key), value))

    def _parts(self, schema: Schema) -> Iterator[Schema]:
        """The schema and its alternatives, without references."""
        for part in (schema, *schema.get("anyOf", ())):
            yield self._schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part

    def _bounds(self, schema: Schema) -> Iterator[Any]:
        """Values just outside of what the schema's keywords allow."""
        for part in self._parts(schema):
            if "minimum" in part:
                yield part["minimum"] - 1
            if "maximum" in part:
                yield part["maximum"] + 1
            if "maxLength" in part:
                yield "a" * (part["maxLength"] + 1)
            for word in part.get("enum", ()):
                yield from (word.upper(), f"{word}s", f" {word}") if isinstance(word, str) else (f"{word}s",)
            if numbers := [n for n in part.get("enum", ()) if isinstance(n, int)]:
                yield from (min(numbers) - 1, max(numbers) + 1)
            for example in part.get("examples", ()):
                yield from (f"{example} ", f"-{example}", f"{example}{example}", example.lower())

    def _spoilt(self, title: str, path: Path, site: dict[str, Any], why: str = "", fix: str = "") -> Spoilt:
        writer = Writer(site)
        return Spoilt(title, writer.text, dotted(path), writer.places[path], why, fix)

    def _with(self, path: Path, value: Any) -> dict[str, Any]:
        site = self._copied(path)
        self._parent(site, path)[path[-1]] = value
        return site

    def _copied(self, path: Path) -> dict[str, Any]:
        """The site, of which only what holds the path is copied: thousands of whole copies take minutes."""
        site: Any = copy.copy(self._site)
        holder = site
        for step in path[:-1]:
            holder[step] = copy.copy(holder[step])
            holder = holder[step]
        copied: dict[str, Any] = site
        return copied

    def _there(self, path: Path) -> bool:
        parent = self._parent(self._site, path)
        return path[-1] in parent if isinstance(parent, dict) else int(path[-1]) < len(parent)

    @staticmethod
    def _parent(site: Any, path: Path) -> Any:
        for step in path[:-1]:
            site = site[step]
        return site

    def _at(self, path: Path, schema: Schema, value: Any) -> Schema:
        """The schema at a path."""
        schema = self._of(schema, value)
        if not path:
            return schema
        step, value = path[0], value[path[0]]
        inner = schema["items"] if isinstance(step, int) else schema.get("properties", {}).get(step)
        return self._at(path[1:], inner if inner is not None else schema["additionalProperties"], value)
