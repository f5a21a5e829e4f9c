"""What a key of a site file is set to, where, and what it means."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic.fields import FieldInfo

from strata.errors import UserError
from strata.layers import Layer
from strata.models.base import Model, Unit
from strata.models.key_path import KeyPath, dotted
from strata.models.site import Site
from strata.models.types import SiteFile, Size
from strata.roles import roles
from strata.site_file.document import Document, read_document
from strata.site_file.inventories import inventories
from strata.site_file.loader import load_site
from strata.site_file.problems import printable, suggestion
from strata.site_file.pydantic_errors import strip_optional


class Explanation(BaseModel):
    """The answer of `strata explain`."""

    model_config = ConfigDict(frozen=True)
    key: str
    value: Any
    origin: Literal["set", "default"]
    file: Path
    line: int | None
    """Where it is set; None for a default."""
    description: str
    unit: str | None
    type: str
    choices: tuple[str, ...] = ()
    layer: str
    keys: tuple[str, ...] = ()
    """What can be set below it."""

    def text(self) -> str:
        """For people."""
        shown = _show(self.value)
        where = f"set in {self.file}:{self.line}" if self.origin == "set" else f"default; not set in {self.file}"
        lines = [f"{self.key} = {shown}", f"  {where}", f"  {self.description}"]
        lines.append(f"  type: {self.type}" + (f", in {self.unit}" if self.unit else ""))
        if self.choices:
            lines.append(f"  choices: {', '.join(self.choices)}")
        lines.append(f"  layer: {self.layer}")
        if self.keys:
            lines.append(f"  keys: {', '.join(self.keys)}")
        return "\n".join(lines)


def explain(path: Path, key_path: str) -> Explanation:
    """Explains one key.

    Args:
        path: the site.yaml.
        key_path: `cloud.flavors[0].memory`, `cloud.flavors.0.memory` or, by name, `cloud.flavors.gpu.v100.1.memory`.

    Raises:
        SiteError: the file has errors.
        UserError: there is no such key.
    """
    site, document = load_site(path), read_document(path)
    steps = [step for step in re.split(r"[.\[\]]+", key_path.strip()) if step]
    if not steps:
        raise UserError("which key?", fix=f"one of {', '.join(Site.model_fields)}")
    return _Walk(site, document, steps).explain()


class _Walk:
    """Follows a key path through model, types and document at once."""

    def __init__(self, site: Site, document: Document, steps: list[str]) -> None:
        self._document = document
        self._steps = steps
        self._value: Any = site
        self._path: KeyPath = ()
        self._annotation: Any = Site
        self._field: FieldInfo | None = None

    def explain(self) -> Explanation:
        while self._steps:
            if isinstance(self._value, Model):
                self._into_model(self._value)
            elif isinstance(self._value, tuple):
                self._into_list(self._value)
            elif isinstance(self._value, Mapping):
                self._into_mapping(self._value)
            elif self._value is None and (below := _model_in(self._annotation)) is not None:
                self._not_set(below)
            else:
                raise UserError(
                    f"{dotted(self._path)} has no keys below it", fix=f"strata explain … {dotted(self._path)}"
                )
        place, own = self._document.locate(self._path)
        inner = _model_in(self._annotation)
        return Explanation(
            key=dotted(self._path),
            value=_plain(self._value),
            origin="set" if own else "default",
            file=_short(self._document.file),
            line=place.line if own else None,
            description=self._role_description()
            or (self._field.description if self._field else None)
            or (inner.__doc__ if inner else "")
            or "",
            unit=unit_of(self._field, self._annotation),
            type=type_name(self._annotation),
            choices=choices_of(self._annotation),
            layer=layer_of(str(self._path[0])),
            keys=tuple(inner.model_fields) if inner else (),
        )

    def _not_set(self, model: type[Model]) -> None:
        """A key in a section that the site does not have."""
        place, name = dotted(self._path), self._steps[0]
        if name not in model.model_fields:
            fix = suggestion(name, list(model.model_fields), "keys there")
            raise UserError(f"{dotted((*self._path, name))}: there is no such key", fix=fix)
        fix = f"strata explain … {place} lists the keys"
        raise UserError(f"{dotted((*self._path, name))}: this site has no {place}", fix=fix)

    def _role_description(self) -> str | None:
        """The description of a single role in role.yaml."""
        return roles()[str(self._value)].description if self._path[-2:-1] == ("roles",) else None

    def _into_model(self, value: Model) -> None:
        name = self._steps.pop(0)
        fields = type(value).model_fields
        if name not in fields:
            raise UserError(
                f"{dotted((*self._path, name))}: there is no such key", fix=suggestion(name, list(fields), "keys here")
            )
        self._field = fields[name]
        self._value, self._annotation = getattr(value, name), strip_optional(fields[name].annotation)
        self._path = (*self._path, name)

    def _into_list(self, value: tuple[Any, ...]) -> None:
        names = [str(getattr(entry, "name", entry)) for entry in value]
        index = self._index(names)
        self._value, self._path = value[index], (*self._path, index)
        self._annotation = strip_optional(get_args(self._annotation)[0])

    def _index(self, names: list[str]) -> int:
        # names may have dots themselves: the longest run of steps that is a name wins
        for length in range(len(self._steps), 0, -1):
            name = ".".join(self._steps[:length])
            if name in names:
                del self._steps[:length]
                return names.index(name)
        step = self._steps.pop(0)
        if step.isdecimal() and len(step) < 10 and int(step) < len(names):
            return int(step)
        place = dotted(self._path)
        if step.isdecimal():
            raise UserError(f"{place} has {len(names)} entries, from 0", fix=f"{place}[0] or {place}.NAME")
        raise UserError(f"{place} has no entry {printable(step)}", fix=suggestion(step, names, "entries"))

    def _into_mapping(self, value: Mapping[str, Any]) -> None:
        for length in range(len(self._steps), 0, -1):
            name = ".".join(self._steps[:length])
            if name in value:
                del self._steps[:length]
                self._value, self._path = value[name], (*self._path, name)
                self._annotation = strip_optional(get_args(self._annotation)[1])
                return
        raise UserError(
            f"{dotted(self._path)} has no key {self._steps[0]}",
            fix=suggestion(self._steps[0], list(value), "keys here"),
        )


def layer_of(section: str) -> str:
    """Layer of `strata up` that a top-level section of site.yaml belongs to; "site" for what all layers read."""
    if section == "access":
        return Layer.CLOUD
    return section if section in tuple(Layer) else "site"


def _model_in(annotation: Any) -> type[Model] | None:
    """The model that a key holds, one or a list of them."""
    if get_origin(annotation) is tuple:
        annotation = strip_optional(get_args(annotation)[0])
    return annotation if isinstance(annotation, type) and issubclass(annotation, Model) else None


def unit_of(field: FieldInfo | None, annotation: Any) -> str | None:
    """What a number counts."""
    for meta in field.metadata if field else ():
        if isinstance(meta, Unit):
            return meta.name
    if annotation is Size:
        return f"size units {', '.join(Size.units)}"
    return None


def choices_of(annotation: Any) -> tuple[str, ...]:
    """The words that can be set there, () where they are not listed."""
    if get_origin(annotation) is tuple:
        annotation = strip_optional(get_args(annotation)[0])
    return tuple(str(c) for c in get_args(annotation)) if get_origin(annotation) is Literal else ()


_TYPE_NAMES: Mapping[Any, str] = {
    str: "text",
    int: "number",
    float: "number",
    bool: "true or false",
    Path: "path",
    SiteFile: "path",
    Size: "size",
    UUID: "UUID",
    IPv4Address: "address",
    IPv6Address: "address",
    IPv4Network: "network",
    IPv6Network: "network",
    JsonValue: "any value",
}


def type_name(annotation: Any) -> str:
    """A type in the words of the reference.

    Raises:
        TypeError: the type has no name here.
    """
    annotation = strip_optional(annotation)
    if isinstance(annotation, Hashable) and annotation in _TYPE_NAMES:
        return _TYPE_NAMES[annotation]
    origin = get_origin(annotation)
    if origin in (tuple, list):
        return f"list of {type_name(get_args(annotation)[0])}"
    if origin is dict:
        key, value = get_args(annotation)
        return f"mapping of {type_name(key)} to {type_name(value)}"
    if origin is Literal:
        return "choice"
    if origin in (Union, UnionType):
        return " or ".join(
            dict.fromkeys(type_name(argument) for argument in get_args(annotation) if argument is not NoneType)
        )
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation.__name__
    raise TypeError(f"{annotation} has no name in strata.site_file.explain._TYPE_NAMES")


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    return value if value is None or isinstance(value, int | float) else str(value)


def _show(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_show(v["name"] if isinstance(v, dict) and "name" in v else v) for v in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_show(v)}" for k, v in value.items()) + "}"
    if isinstance(value, bool):
        return str(value).lower()  # as YAML writes it
    return "nothing" if value is None else str(value)


def _short(file: Path) -> Path:
    """Relative to the repository where it is inside."""
    root = inventories().parent
    absolute = file.absolute()
    return absolute.relative_to(root) if absolute.is_relative_to(root) else file
