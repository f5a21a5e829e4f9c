"""The reference page of a site file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from strata.models.accelerator_catalogue import CATALOGUE
from strata.models.base import Model
from strata.models.site import Site
from strata.roles import Condition, Port, Role, roles
from strata.site_file.explain import choices_of, layer_of, type_name, unit_of
from strata.site_file.pydantic_errors import strip_optional

HEADER = """# Site file

`inventories/<site>/site.yaml` describes a site; `python -m strata.site_file.generate` generates this page from
`src/strata/models`. `strata explain SITE KEY.PATH` shows the entry of a key, with its value and line.

Sizes are whole numbers with a binary unit (`32 GiB`).
Unknown keys, duplicate keys, anchors and aliases are refused. Text that looks like a number needs quotes.
"""

CONDITIONS: Mapping[Condition, str] = {
    "archived_postgresql": "with `hosts.backup.postgresql`",
    "balanced_api": "with several control planes",
    "replicated_postgresql": "with several `postgresql` hosts",
    "virtual_address": "with `hosts.load_balancer`",
}


def reference_text() -> str:
    """What docs/reference/site.md holds."""
    parts = [HEADER]
    parts += [_section(path, model) for path, model in _sections("", Site, set())]
    parts += [_roles(), _accelerators()]
    return "\n".join(parts)


def _sections(path: str, model: type[Model], seen: set[type[Model]]) -> Iterator[tuple[str, type[Model]]]:
    """Models in the order of their keys, each once."""
    seen.add(model)
    yield path, model
    for name, field in model.model_fields.items():
        inner, below = _inner(field.annotation, f"{path}.{name}" if path else name)
        if inner is not None and inner not in seen:
            yield from _sections(below, inner, seen)


def _inner(annotation: Any, path: str) -> tuple[type[Model] | None, str]:
    annotation = strip_optional(annotation)
    if get_origin(annotation) is tuple:
        annotation, path = strip_optional(get_args(annotation)[0]), f"{path}[]"
    return (annotation, path) if isinstance(annotation, type) and issubclass(annotation, Model) else (None, path)


def _section(path: str, model: type[Model]) -> str:
    lines = [f"## {path or 'site'}", "", (model.__doc__ or "").strip(), ""]
    lines += [f"Layer: {layer_of(path.partition('.')[0])}.", ""]
    lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
    lines += [_row(name, field) for name, field in model.model_fields.items()]
    return "\n".join([*lines, ""])


def _row(name: str, field: FieldInfo) -> str:
    annotation = strip_optional(field.annotation)
    kind = type_name(annotation)
    if choices := choices_of(annotation):
        kind += ": " + ", ".join(f"`{choice}`" for choice in choices)
    unit = unit_of(field, annotation)
    if unit and kind != "size":
        kind += f" ({unit})"
    meaning = (field.description or "").replace("|", "\\|").replace("<", "&lt;")
    return f"| `{name}` | {kind} | {_default(field)} | {meaning} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default is PydanticUndefined:
        factory = field.default_factory
        if factory is not None and not field.default_factory_takes_validated_data:
            value: Any = field.get_default(call_default_factory=True)
            return _shown(value)
        return "derived"
    return _shown(field.default)


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, Model):
        return "its defaults"
    if isinstance(value, tuple):
        return ", ".join(f"`{entry}`" for entry in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"`{k}: {v}`" for k, v in value.items()) or "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"  # as YAML writes it
    return f"`{value}`"


def _roles() -> str:
    lines = ["## Roles", "", "Generated from `ansible/roles/<role>/role.yaml`, in the order in which they run.", ""]
    lines += ["| role | on | provides | TCP ports (clients) | DNS name | needs |", "|---|---|---|---|---|---|"]
    for name, role in roles().items():
        ports = ", ".join(f"{_number(port)} ({', '.join(_clients(port))})" for port in role.ports) or "–"
        names = ", ".join(f"`{own}.<domain>`" for own in role.dns_names) or "–"
        lines.append(f"| `{name}` | {_runs_on(role)} | {role.description} | {ports} | {names} | {_needs(role)} |")
    return "\n".join([*lines, ""])


def _number(port: Port) -> str:
    return str(port.port) if port.last is None else f"{port.port}–{port.last}"


def _clients(port: Port) -> list[str]:
    several = [CONDITIONS[port.when]] if port.when else []
    return [*port.clients, *([f"`access.{port.access}`"] if port.access else []), *several]


def _runs_on(role: Role) -> str:
    if role.runs_on == "all":
        return "every host"
    if role.runs_on == "machines":
        return "`hosts.machines`"
    if isinstance(role.runs_on, tuple):
        only = f", {CONDITIONS[role.when]}" if role.when else ""
        return f"hosts with {' or '.join(f'`{name}`' for name in role.runs_on)}{only}"
    return "one host" if role.hosts == "one" else "any host"


def _needs(role: Role) -> str:
    needs = [f"`{name}` on the same host" for name in role.needs.on_host]
    needs += [f"`{name}`" for name in role.needs.on_site]
    needs += [f"`hosts.{role.needs.section.key}`"] if role.needs.section else []
    needs += ["`cluster`"] if role.needs.cluster else []
    return ", ".join(needs) or "–"


def _accelerators() -> str:
    source = "src/strata/models/accelerator_catalogue.py"
    where = f"These are built in, from `{source}`; a site describes others in `accelerator_kinds`."
    lines = ["## Kinds of accelerators", "", where, ""]
    lines.append(
        "| kind | card | memory | PCI | nova device type | compute capability | MIG | last driver, CUDA | resource |"
    )
    lines.append("|---|---|---|---|---|---|---|---|---|")
    for a in CATALOGUE.values():
        pci = f"`{a.pci_id}` | `{a.device_type}`"
        capability = ".".join(map(str, a.compute_capability)) if a.compute_capability else "–"
        last = f"{a.last_driver_branch}, {a.last_cuda}" if a.last_driver_branch else "–"
        more = f"{capability} | {', '.join(a.mig_profiles) or '–'} | {last}"
        lines.append(f"| `{a.kind}` | {a.description} | {a.memory} | {pci} | {more} | `{a.resource}` |")
    return "\n".join([*lines, ""])
