"""Where in a site file a key belongs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from pydantic import BaseModel

from strata.models.site import Site
from strata.models.yaml_events import KeyPath


def places_of(key: str, data: Mapping[str, object]) -> list[KeyPath]:
    """Paths, through sections that are there, at which a key of this name may stand; not those inside lists.

    Args:
        key: as it stands in the file, at a wrong place.
        data: the whole file.
    """
    return [path for path in _sections().get(key, ()) if _there(data, path[:-1])]


def _there(data: object, path: KeyPath) -> bool:
    for step in path:
        if not isinstance(data, dict) or step not in data:
            return False
        data = data[step]
    return isinstance(data, dict)


@cache
def _sections() -> Mapping[str, tuple[KeyPath, ...]]:
    """Key to the paths of it that lead through mappings only."""
    found: dict[str, tuple[KeyPath, ...]] = {}
    for path in _walk(Site, ()):
        found[str(path[-1])] = (*found.get(str(path[-1]), ()), path)
    return found


def _walk(model: type[BaseModel], path: KeyPath) -> Iterator[KeyPath]:
    from strata.models.pydantic_errors import strip_optional

    for name, field in model.model_fields.items():
        yield (*path, name)
        inner = strip_optional(field.annotation)
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _walk(inner, (*path, name))
