"""Pulumi's property values: protobuf to Python and back, secrets, unknowns, differences."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

from google.protobuf.struct_pb2 import Struct, Value
from pulumi.runtime.proto.provider_pb2 import PropertyDiff

Properties = dict[str, Any]

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 the mark of a secret, not one
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
# the engine has one mark per type of the value to come
UNKNOWNS = frozenset(
    {
        UNKNOWN,
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)
_MISSING = object()


def load(message: Struct) -> Properties:
    """Python values, secrets still wrapped; whole numbers become int, as an API server wants them."""
    return {key: _load(value) for key, value in message.fields.items()}


def _load(value: Value) -> Any:
    match value.WhichOneof("kind"):
        case "struct_value":
            return load(value.struct_value)
        case "list_value":
            return [_load(item) for item in value.list_value.values]
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() else number
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
    return None


def dump(values: Properties) -> Struct:
    """The protobuf form."""
    message = Struct()
    message.update(values)
    return message


def is_secret(value: Any) -> bool:
    """Whether it is a wrapped secret."""
    return isinstance(value, dict) and value.get(SIGNATURE) == SECRET


def secret(value: Any) -> Any:
    """The value wrapped as a secret."""
    return value if is_secret(value) else {SIGNATURE: SECRET, "value": value}


def plain(value: Any, *, nulls: bool = False) -> Any:
    """The value without secret wrappers, and without nulls but those of a release with allowNullValues.

    Args:
        value: from `load`.
        nulls: whether nulls stay.
    """
    if is_secret(value):
        return plain(value["value"], nulls=nulls)
    if isinstance(value, dict):
        allowed = value.get("allowNullValues") is True
        return {
            key: plain(item, nulls=nulls or (allowed and key == "values"))
            for key, item in value.items()
            if nulls or item is not None
        }
    return [plain(item, nulls=nulls) for item in value] if isinstance(value, list) else value


def _any(value: Any, test: Callable[[Any], bool]) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return test(value) or any(_any(item, test) for item in items)


def has_unknown(value: Any) -> bool:
    """Whether any part is not known before another resource exists."""
    return _any(value, lambda item: isinstance(item, str) and item in UNKNOWNS)


def mark(values: Properties, model: Properties) -> Properties:
    """Wraps as secret whatever is secret in `model`."""
    if any(is_secret(item) for item in values.values()):
        return values
    marked = dict(values)
    for key in values.keys() & model.keys():
        if isinstance(values[key], dict) and isinstance(model[key], dict) and not is_secret(model[key]):
            marked[key] = mark(values[key], model[key])
        elif _any(model[key], is_secret):
            marked[key] = secret(values[key])
    return marked


def differences(old: Any, new: Any, path: str = "") -> dict[str, int]:
    """Path to kind of change, `PropertyDiff.ADD`, `DELETE` or `UPDATE`."""
    kinds: dict[str, int] = {}
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            step = f'["{key}"]' if any(sign in key for sign in '.["') else f".{key}" if path else key
            kinds |= differences(old.get(key, _MISSING), new.get(key, _MISSING), path + step)
    elif isinstance(old, list) and isinstance(new, list):
        for index, (left, right) in enumerate(zip_longest(old, new, fillvalue=_MISSING)):
            kinds |= differences(left, right, f"{path}[{index}]")
    elif old is _MISSING:
        kinds[path] = PropertyDiff.ADD
    elif new is _MISSING:
        kinds[path] = PropertyDiff.DELETE
    elif old != new:
        kinds[path] = PropertyDiff.UPDATE
    return kinds
