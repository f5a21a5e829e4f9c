"""What the values of all charts share: images by digest, secrets, quantities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pulumi

from strata.errors import UserError
from strata.models.types import Size
from strata.site.outputs import ImageOutputs

Values = dict[str, Any]


class Secrets(Protocol):
    """What the platform asks of the site's secret store."""

    @property
    def ca(self) -> str:
        """PEM of the site's certificate authority."""

    def get(self, name: str) -> str:
        """The secret's value."""

    def peek(self, name: str) -> str | None:
        """A kept value, None where there is none."""

    def put(self, name: str, value: str) -> None:
        """Keeps a secret."""


class SecretText(str):
    """A text that Pulumi keeps encrypted."""

    __slots__ = ()


def as_inputs(value: Any) -> Any:
    """Values for Pulumi: each SecretText becomes a secret output."""
    if isinstance(value, SecretText):
        return pulumi.Output.secret(str(value))
    if isinstance(value, Mapping):
        return {key: as_inputs(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_inputs(item) for item in value]
    return value


def image(images: ImageOutputs, name: str) -> Values:
    """repository and digest of an image.

    Args:
        images: what the cluster layer pushed.
        name: short name, "ml-hub".

    Raises:
        UserError: it has not been pushed.
    """
    reference = images.images.get(name)
    if reference is None:
        known = ", ".join(sorted(images.images)) or "none"
        raise UserError(
            f"the site's registry has no image {name} (it has {known})", fix="run `strata up SITE --layer cluster`"
        )
    repository, _, digest = reference.partition("@")
    return {"repository": repository, "digest": digest}


def memory(size: Size) -> str:
    """A size as Kubernetes writes it."""
    gibibytes, rest = divmod(size.bytes, 2**30)
    return f"{size.mebibytes}Mi" if rest else f"{gibibytes}Gi"
