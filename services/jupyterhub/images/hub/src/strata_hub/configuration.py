"""What a tenant's administrator may configure of the servers of its members, and the most that the site allows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Configuration = Mapping[str, Any]
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
"""Of memory, as KubeSpawner reads them."""
ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
RESERVED = re.compile(
    r"(JUPYTER|JPY_|KUBERNETES|LD_|PYTHON|BASH|GIT_|_?CONDOR_|DASK_).*|PATH|HOME|USER|SHELL|ENV|IFS|TMPDIR|NB_.*"
    r"|(CPU|MEM)_(LIMIT|GUARANTEE)|.*_PROXY",
    re.IGNORECASE,
)
"""Variables of the hub, of the loader and of interpreters: with them, an administrator would run code as the user or
redirect a server's requests."""
GROUP_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?")
MOST_ENTRIES, LONGEST_VALUE = 64, 4096


class InvalidConfigurationError(Exception):
    """A value that is not allowed: key, value, fix."""

    def __init__(self, key: str, value: object, why: str, fix: str) -> None:
        text = repr(value)
        shown = text if len(text) <= 100 else text[:100] + "…"
        super().__init__(f"{key}: {shown}: {why}; fix: {fix}")


@dataclass(frozen=True)
class Limits:
    """The most that a tenant may configure for one server: its quota.

    Args:
        cpu: CPUs.
        memory: bytes.
        accelerators: count by kind.
        images: allowed ones; one that ends with `/` allows all below it.
    """

    cpu: float
    memory: int
    accelerators: Mapping[str, int]
    images: Sequence[str]


def bytes_of(key: str, value: object) -> int:
    """Bytes of a size such as `512M` or 1073741824; units are powers of 1024.

    Raises:
        InvalidConfigurationError: the value is not a size.
    """
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,3})?)([KMGT]?)", str(value)) if _number_or_text(value) else None
    if match is None or float(match[1]) == 0:
        raise InvalidConfigurationError(key, value, "is not a size", "bytes, or a number with K, M, G or T, such as 2G")
    return int(float(match[1]) * UNITS[match[2]])


def _number_or_text(value: object) -> bool:
    return isinstance(value, int | float | str) and not isinstance(value, bool)


def _cpu(key: str, value: Any, limits: Limits) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise InvalidConfigurationError(key, value, "is not a number of CPUs", f"a number up to {limits.cpu:g}")
    if value > limits.cpu:
        raise InvalidConfigurationError(key, value, "is more than the tenant's quota", f"at most {limits.cpu:g}")


def _memory(key: str, value: Any, limits: Limits) -> None:
    if bytes_of(key, value) > limits.memory:
        fix = f"at most {limits.memory // UNITS['M']}M"
        raise InvalidConfigurationError(key, value, "is more than the tenant's quota", fix)


def _image(key: str, value: Any, limits: Limits) -> None:
    allowed = isinstance(value, str) and any(
        value == image or (image.endswith("/") and value.startswith(image)) for image in limits.images
    )
    if not allowed or ".." in value or not re.fullmatch(r"[\w./:@-]{1,500}", value, re.ASCII):
        known = ", ".join(limits.images) or "none"
        fix = f"one of platform.services.jupyterhub.images in site.yaml: {known}"
        raise InvalidConfigurationError(key, value, "the site does not allow this image", fix)


def _mapping(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict) or len(value) > MOST_ENTRIES:
        raise InvalidConfigurationError(key, value, "is not an object", f"an object of up to {MOST_ENTRIES} entries")
    return iter(value.items())


def _environment(key: str, value: Any, _: Limits) -> None:
    for name, text in _mapping(key, value):
        at = f"{key}.{name[:128]}"
        if not ENVIRONMENT_NAME.fullmatch(name):
            raise InvalidConfigurationError(at, text, "is not the name of a variable", "letters, digits and _")
        if RESERVED.fullmatch(name):
            raise InvalidConfigurationError(at, text, "the variable is reserved", "another name")
        if not isinstance(text, str) or len(text) > LONGEST_VALUE or "\0" in text:
            fix = f"a string of at most {LONGEST_VALUE} characters"
            raise InvalidConfigurationError(at, text, "is not a value of a variable", fix)


def _accelerators(key: str, value: Any, limits: Limits) -> None:
    kinds = list(_mapping(key, value))
    if len(kinds) > 1:
        raise InvalidConfigurationError(key, value, "more than one kind", "accelerators of one kind")
    for kind, count in kinds:
        most = limits.accelerators.get(kind, 0)
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= most:
            fix = f"1 to {most}" if most else f"one of {', '.join(sorted(limits.accelerators)) or 'none'}"
            raise InvalidConfigurationError(f"{key}.{kind[:63]}", count, "is not in the tenant's quota", fix)


POD_SECONDS = {"activeDeadlineSeconds": (60, 30 * 86400), "terminationGracePeriodSeconds": (0, 120)}


def _extra_pod_config(key: str, value: Any, _: Limits) -> None:
    for name, setting in _mapping(key, value):
        at = f"{key}.{name[:63]}"
        if name in POD_SECONDS:
            low, high = POD_SECONDS[name]
            if isinstance(setting, bool) or not isinstance(setting, int) or not low <= setting <= high:
                raise InvalidConfigurationError(at, setting, "is out of range", f"{low} to {high} seconds")
        elif name == "nodeSelector":
            for label, text in _mapping(at, setting):
                matches = isinstance(text, str) and LABEL.fullmatch(label) and re.fullmatch(r"[\w.-]{0,63}", text)
                if not matches or label.startswith("node-role.kubernetes.io/"):
                    raise InvalidConfigurationError(
                        f"{at}.{label[:63]}", text, "is not a label of users' nodes", "another"
                    )
        else:
            fix = f"one of {', '.join([*POD_SECONDS, 'nodeSelector'])}"
            raise InvalidConfigurationError(at, setting, "this field of the pod is the site's", fix)


FIELDS: dict[str, Callable[[str, Any, Limits], None]] = {
    "cpu_limit": _cpu,
    "cpu_guarantee": _cpu,
    "mem_limit": _memory,
    "mem_guarantee": _memory,
    "accelerators": _accelerators,
    "image": _image,
    "environment": _environment,
    "extra_pod_config": _extra_pod_config,
}
"""All that may be configured. What is not here, no tenant sets: volumes, security contexts, service accounts, labels,
tolerations, namespaces, commands, further containers."""


def _members(key: str, value: Any) -> None:
    names = value if isinstance(value, list) else [None]
    if not all(isinstance(name, str) and 0 < len(name) <= 255 for name in names):
        raise InvalidConfigurationError(key, value, "is not a list of users", "a list of login names")


def validate(kind: str, value: Any, limits: Limits) -> None:
    """Accepts the configuration of a tenant, a group or a user.

    Args:
        kind: `tenant`, `groups` or `users`; a group also has `members`.
        value: as it came, JSON.
        limits: of the tenant.

    Raises:
        InvalidConfigurationError: a key or value is not allowed.
    """
    if not isinstance(value, dict):
        raise InvalidConfigurationError("body", value, "is not an object", "a JSON object")
    for key, setting in value.items():
        if key == "members" and kind == "groups":
            _members(key, setting)
        elif key in FIELDS:
            FIELDS[key](key, setting, limits)
        else:
            names = [*FIELDS, *(("members",) if kind == "groups" else ())]
            raise InvalidConfigurationError(key[:63], setting, "unknown key", f"one of {', '.join(names)}")
    for name, size in (("cpu", float), ("mem", lambda text: bytes_of("", text))):
        limit, guarantee = value.get(f"{name}_limit"), value.get(f"{name}_guarantee")
        if None not in (limit, guarantee) and size(guarantee) > size(limit):
            raise InvalidConfigurationError(
                f"{name}_guarantee", guarantee, f"is more than {name}_limit", f"at most {limit}"
            )


def effective(
    stored: Mapping[tuple[str, str], Configuration], user: str, groups: set[str], group: str, limits: Limits
) -> dict[str, Any]:
    """A user's configuration: the user's own beats the groups', which beat the tenant's. Objects are merged by key.

    Of several groups, the first by name wins. What the site no longer allows is left out.

    Args:
        stored: by kind and name, of one tenant.
        user: name of the user.
        groups: of the user, as the issuer's claim has them.
        group: of the tenant's members.
        limits: of the tenant.
    """
    own = sorted(
        name
        for kind, name in stored
        if kind == "groups" and (f"{group}/{name}" in groups or user in stored[kind, name].get("members", ()))
    )
    layers = [("tenant", ""), *(("groups", name) for name in reversed(own)), ("users", user)]
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in stored.get(layer, {}).items():
            try:
                FIELDS.get(key, _unknown)(key, value, limits)
            except InvalidConfigurationError:
                continue
            merged = key in ("environment", "extra_pod_config") and key in result
            result[key] = {**result[key], **value} if merged else value
    return result


def _unknown(key: str, value: Any, _: Limits) -> None:
    raise InvalidConfigurationError(key, value, "is not of a server", "")
