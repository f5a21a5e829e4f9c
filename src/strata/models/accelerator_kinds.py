"""Kinds of accelerators that a site can name: those of the catalogue, and those that it describes itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from strata.models.accelerator_catalogue import CATALOGUE, NVIDIA, NVIDIA_RESOURCE, Accelerator
from strata.models.base import Model
from strata.models.types import ComputeCapability, Count, ExtendedResource, PciIdentifier, ProductName, Size

NAME = r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?"
"""Of a kind: nova's alias, a part of a Kubernetes label's key, Slurm's type of a gres."""
EXAMPLE = (
    'accelerator_kinds: [{name: a10, vendor_id: "10de", product_id: "2236", device_type: type-PF, '
    'description: NVIDIA A10, memory: 24 GiB, compute_capability: "8.6"}]'
)
DESCRIBE = (
    f"a card that is not listed is described by its identifiers, which `lspci -nn` shows on its host, for instance "
    f"{EXAMPLE}"
)


def _name(value: str) -> str:
    if re.fullmatch(NAME, value) is None:
        rule = "must be lower-case letters, digits and dashes, at most 32, beginning and ending with a letter or digit"
        raise PydanticCustomError("name", "{rule}", {"rule": rule, "fix": "for instance a10"})
    return value


def _profile(value: str) -> str:
    if re.fullmatch(r"[1-7]g\.[1-9][0-9]{0,2}gb", value) is None:
        why = "must be the name of a MIG profile"
        raise PydanticCustomError("mig_profile", "{why}", {"why": why, "fix": "for instance 1g.10gb"})
    return value


class DescribedAccelerator(Model):
    """A kind of accelerator that the catalogue does not list, with the identifiers that `lspci -nn` shows."""

    name: Annotated[
        str,
        AfterValidator(_name),
        WithJsonSchema({"type": "string", "pattern": f"^{NAME}$"}),
        Field(description="Name of the kind in `accelerators`, flavors, labels and nova's PCI alias."),
    ]
    vendor_id: Annotated[PciIdentifier, Field(description="PCI vendor, in quotes: 10de is NVIDIA.")]
    product_id: Annotated[PciIdentifier, Field(description="PCI device of that vendor, in quotes.")]
    device_type: Annotated[
        Literal["type-PCI", "type-PF"],
        Field(
            description="How nova claims it: `type-PF` if `lspci -vv` shows Single Root I/O Virtualization, "
            "else `type-PCI`."
        ),
    ]
    description: Annotated[ProductName, Field(description="The vendor's name, for reports and messages.")]
    memory: Annotated[Size, Field(description="Memory on the card.")]
    category: Annotated[Literal["gpu", "fpga"], Field(description="What it is; Slurm's gres has this name.")] = "gpu"
    compute_capability: Annotated[
        ComputeCapability | None,
        Field(description="Compute capability of an NVIDIA GPU, in quotes; other cards have none."),
    ] = None
    mig_profiles: Annotated[
        dict[Annotated[str, AfterValidator(_profile)], Annotated[int, Field(strict=True, ge=1, le=7)]],
        Field(description="MIG profiles of an NVIDIA GPU, each with the number of instances that fit."),
    ] = Field(default_factory=dict)
    resource: Annotated[
        ExtendedResource | None,
        Field(description=f"Extended resource that pods request. NVIDIA GPUs are `{NVIDIA_RESOURCE}`."),
    ] = None

    @model_validator(mode="after")
    def _by_vendor(self) -> Self:
        self.memory.require_whole("memory", "MiB", 24576)
        if self.vendor_id == NVIDIA:
            if self.compute_capability is None:
                why, fix = "is missing, and the card is NVIDIA's", 'add it, for instance compute_capability: "8.6"'
                raise _error("compute_capability", why, fix)
            if self.resource is not None:
                raise _error("resource", f"is always {NVIDIA_RESOURCE} for NVIDIA's cards", "remove resource")
            if self.category != "gpu":
                raise _error("category", "is always gpu for NVIDIA's cards", "remove category")
            return self
        for key in ("compute_capability", "mig_profiles"):
            if getattr(self, key):
                raise _error(key, f"is for NVIDIA's cards, whose vendor_id is {NVIDIA}", f"remove {key}")
        domain = (self.resource or "").partition("/")[0]
        if not domain:
            raise _error("resource", "is missing: what pods request", "add it, for instance resource: amd.com/gpu")
        if domain == "nvidia.com" or f".{domain}".endswith((".kubernetes.io", ".k8s.io")):
            raise _error("resource", f"is in {domain}, which is not the vendor's", "for instance amd.com/gpu")
        return self

    @property
    def accelerator(self) -> Accelerator:
        """As an entry of the catalogue."""
        major, _, minor = (self.compute_capability or "").partition(".")
        return Accelerator(
            kind=self.name,
            vendor_id=self.vendor_id,
            product_id=self.product_id,
            device_type=self.device_type,
            description=self.description,
            memory=self.memory,
            resource=self.resource or NVIDIA_RESOURCE,
            compute_capability=(int(major), int(minor)) if minor else None,
            mig_profiles=self.mig_profiles,
            category=self.category,
        )


def _error(key: str, why: str, fix: str) -> PydanticCustomError:
    return PydanticCustomError("described_accelerator", "{why}", {"key": key, "why": why, "fix": fix})


_BUILT_IN: Mapping[str, str] = {kind: card.description for kind, card in CATALOGUE.items()}
_known: ContextVar[Mapping[str, str] | None] = ContextVar("known", default=_BUILT_IN)
"""Kind to description while a site is validated; None: the site describes kinds whose names cannot be read."""


@contextmanager
def kinds_of(data: Any) -> Iterator[None]:
    """Lets the values that are validated in the block name the kinds that a site describes.

    Args:
        data: the site as read, of any form.
    """
    token = _known.set(_names(data))
    try:
        yield
    finally:
        _known.reset(token)


def _names(data: Any) -> Mapping[str, str] | None:
    entries = data.get("accelerator_kinds", []) if isinstance(data, dict) else []
    if not isinstance(entries, list | tuple):
        return None
    descriptions = dict(_BUILT_IN)
    for entry in entries:
        if isinstance(entry, DescribedAccelerator):
            descriptions[entry.name] = entry.description
            continue
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or re.fullmatch(NAME, name) is None:
            return None
        descriptions.setdefault(name, str(entry.get("description", ""))[:100])
    return descriptions


def spelled(word: str, kinds: Mapping[str, str] = _BUILT_IN) -> str | None:
    """The kind that a word is another spelling or a longer name of; None where it may be another card.

    A card whose name differs in one letter is another one: V100 and V100S.

    Args:
        word: as written.
        kinds: kind to description.
    """
    given = set(re.findall(r"[a-z0-9]+", word.lower())) - {"gpu", "card"}
    matches = []
    for kind, description in kinds.items():
        own = set(kind.split("-"))
        longer = own | set(re.findall(r"[a-z0-9]+", description.lower().replace(" gb", "gb")))
        if "".join(re.findall(r"[a-z0-9]", word.lower())) == kind.replace("-", "") or own <= given <= longer:
            matches.append(kind)
    return max(matches, key=len, default=None)


def _kind(value: str) -> str:
    known = _known.get()
    if known is not None and value not in known:
        kind = spelled(value[:100], known)
        fix = f"one of {', '.join(known)}; {DESCRIBE}" if kind is None else f"did you mean {kind}?"
        raise PydanticCustomError("accelerator_kind", "is not an accelerator that Strata knows", {"fix": fix})
    return value


AcceleratorKind = Annotated[
    str,
    AfterValidator(_kind),
    WithJsonSchema({"type": "string", "anyOf": [{"enum": list(CATALOGUE)}, {"pattern": f"^{NAME}$"}]}),
]
AcceleratorCounts = dict[AcceleratorKind, Count]
"""Kind to number of cards."""
