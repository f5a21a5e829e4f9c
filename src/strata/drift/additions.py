"""Fields of a release's objects that were added by hand: applying a manifest leaves what other managers own.

The API server records which client set which field (https://kubernetes.io/docs/reference/using-api/server-side-apply/).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strata.access.kubectl import Unanswered, kubectl, kubectl_json
from strata.site.context import SiteContext

Object = Mapping[str, Any]
Field = tuple[str, ...]
"""Path in `fieldsV1`, such as f:spec, f:containers, k:{"name":"hub"}."""
_ROLLOUT = "kubectl-rollout"
"""Manager of `kubectl rollout restart`, which no `up` reverts."""
_METADATA = ("f:annotations", "f:labels")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True)
class Addition:
    """A field that the release does not have.

    Args:
        path: as an operator reads it.
        pointer: keys and indexes that lead to it.
        manager: client that set it, such as kubectl-edit.
        checks: for each list on the way, the length of the pointer to an item's value and that value.
    """

    path: str
    pointer: tuple[str | int, ...]
    manager: str
    checks: tuple[tuple[tuple[str | int, ...], Any], ...] = ()


def additions(applied: Object) -> list[Addition]:
    """The fields that only kubectl's commands own, the outermost ones.

    Fields of unknown managers count as those of controllers, which add to what they watch.

    Args:
        applied: the object with its managedFields, as it is after its manifest was applied: what the manifest has is
            helm's then, whoever set it.
    """
    by_hand: dict[Field, str] = {}
    others: set[Field] = set()
    for entry in applied["metadata"].get("managedFields", ()):
        manager = str(entry.get("manager", ""))
        person = manager.startswith("kubectl") and manager != _ROLLOUT and not entry.get("subresource")
        for field in _fields(entry.get("fieldsV1", {})):
            if person and _compared(field):
                by_hand.setdefault(field, manager)
            else:
                others.update(field[:end] for end in range(1, len(field) + 1))
    roots: dict[Field, str] = {}
    for field, manager in by_hand.items():
        root = next((field[:end] for end in range(1, len(field) + 1) if field[:end] not in others), None)
        if root is not None:
            roots.setdefault(root, manager)
    return [addition for root, manager in sorted(roots.items()) if (addition := _located(applied, root, manager))]


def _compared(field: Field) -> bool:
    if field[0] == "f:metadata":
        return len(field) > 2 and field[1] in _METADATA and field[2] != f"f:{_LAST_APPLIED}"
    return field[0] != "f:status"


def _fields(tree: Mapping[str, Any], path: Field = ()) -> Iterator[Field]:
    """Owned fields: leaves, and items and maps as such (`.`)."""
    for key, inner in tree.items():
        if key == ".":
            yield path
        elif inner:
            yield from _fields(inner, (*path, key))
        else:
            yield (*path, key)


def _located(item: Object, field: Field, manager: str) -> Addition | None:
    """Where a field is in the object; None where it is no more."""
    value: Any = item
    pointer: list[str | int] = []
    checks: list[tuple[tuple[str | int, ...], Any]] = []
    path = ""
    for step in field:
        kind, _, name = step.partition(":")
        if kind == "f":
            if not isinstance(value, Mapping) or name not in value:
                return None
            pointer.append(name)
            value, path = value[name], f"{path}.{name}" if path else name
            continue
        selector: Any = int(name) if kind == "i" else json.loads(name)
        index = _index(value, kind, selector)
        if index is None:
            return None
        pointer.append(index)
        value = value[index]
        if kind == "k":
            checks += [((*pointer, key), expected) for key, expected in selector.items() if key in value]
            path += f"[{','.join(map(str, selector.values()))}]"
        else:
            checks.append((tuple(pointer), value))
            path += f"[{selector}]"
    return Addition(path, tuple(pointer), manager, tuple(checks))


def _index(items: Any, kind: str, selector: Any) -> int | None:
    """Of a list's item by its keys (k), value (v) or number (i); None where there is none."""
    if not isinstance(items, list):
        return None
    if kind == "i":
        return selector if selector < len(items) else None
    for index, item in enumerate(items):
        if item == selector or (
            kind == "k"
            and isinstance(item, Mapping)
            and all(item.get(key, value) == value for key, value in selector.items())
        ):
            return index
    return None


def removal(added: Sequence[Addition]) -> str:
    """JSON patch that removes fields; refused where a list has changed meanwhile. It holds no value but lists' keys."""
    steps: list[dict[str, Any]] = []
    for addition in sorted(added, key=lambda addition: addition.pointer, reverse=True):  # the last item of a list first
        steps += [{"op": "test", "path": _pointer(where), "value": value} for where, value in addition.checks]
        steps.append({"op": "remove", "path": _pointer(addition.pointer)})
    return json.dumps(steps)


def _pointer(steps: Sequence[str | int]) -> str:
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)


def removable(context: SiteContext, applied: Object) -> list[Addition]:
    """Additions without which the server accepts the object; others, such as defaults, it sets again.

    Args:
        context: the site.
        applied: as for `additions`.
    """
    added = additions(applied)
    if not added:
        return []
    try:
        return _gone(context, applied, added)
    except Unanswered:  # one of them is refused: each by itself
        kept: list[Addition] = []
        for addition in added:
            try:
                kept += _gone(context, applied, [addition])
            except Unanswered:
                continue
        return kept


def _gone(context: SiteContext, applied: Object, added: Sequence[Addition]) -> list[Addition]:
    """What is gone once they are removed, dry."""
    options = ("--dry-run=server", "--show-managed-fields")
    left = additions(kubectl_json(context, *_patch(applied, added), *options))
    return [addition for addition in added if addition.path not in {other.path for other in left}]


def remove_additions(context: SiteContext, applied: Object) -> None:
    """Removes what was added by hand.

    Raises:
        Unanswered: the cluster does not respond, or the object changes meanwhile.
    """
    if added := removable(context, applied):
        kubectl(context, *_patch(applied, added))


def _patch(item: Object, added: Sequence[Addition]) -> tuple[str, ...]:
    metadata, (group, _, version) = item["metadata"], item["apiVersion"].rpartition("/")
    kind = f"{item['kind']}.{version}.{group}" if group else item["kind"]
    where = (f"--namespace={metadata['namespace']}",) if metadata.get("namespace") else ()
    return ("patch", kind, metadata["name"], *where, "--type=json", f"--patch={removal(added)}")
