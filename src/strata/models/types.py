"""Scalar types of the site model: sizes, names and networks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from strata.models import suggestions

MAXIMUM_BYTES = 2**63 - 1
"""What a database column of OpenStack can hold."""


@dataclass(frozen=True, order=True)
class Size:
    """An amount of memory or disk, written in a site file as a number, a space and a unit.

    Args:
        bytes: how many.
    """

    bytes: int
    units: ClassVar[dict[str, int]] = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
    example: ClassVar[str] = "32 GiB"

    def __post_init__(self) -> None:
        if not 0 <= self.bytes <= MAXIMUM_BYTES:
            raise ValueError(f"a size is at most {MAXIMUM_BYTES} B")

    @classmethod
    def pattern(cls) -> str:
        """Regular expression of what a site file may have, also the pattern in the JSON Schema."""
        return rf"^(0|[1-9][0-9]{{0,18}}) ?({'|'.join(cls.units)})$"

    @classmethod
    def parse(cls, text: str) -> Self:
        """From "32 GiB".

        Raises:
            ValueError: the text is not a whole number and a known unit, or too large.
        """
        match = re.fullmatch(cls.pattern()[1:-1], text)
        if match is None:
            raise ValueError(f"is not a size: a whole number and a unit ({', '.join(cls.units)})")
        return cls(int(match[1]) * cls.units[match[2]])

    def __str__(self) -> str:
        """The shortest exact form, with the largest unit that divides it."""
        unit = next(u for u, factor in reversed(self.units.items()) if self.bytes % factor == 0)
        return f"{self.bytes // self.units[unit]} {unit}" if self.bytes else "0 B"

    def require_whole(self, key: str, unit: str, example: int, *, least: int = 1) -> None:
        """Refuses what is not a whole number of a unit, or too small; for validators of a model.

        Args:
            key: that has the size.
            unit: of `units`.
            example: an amount, for the fix.
            least: 0 or 1, of the unit.

        Raises:
            PydanticCustomError: naming the key.
        """
        if self.bytes % self.units[unit] or self.bytes < least:
            raise PydanticCustomError(
                "whole_unit",
                f"must be a whole number of {{unit}}{', at least one' if least else ''}",
                {"key": key, "unit": unit, "fix": f"for instance {example} {unit}"},
            )

    @classmethod
    def _validate(cls, value: object) -> Self:
        if isinstance(value, cls):
            return value
        fix = suggestions.size(value, cls.units) or f"for instance {cls.example}"
        if not isinstance(value, str):
            raise PydanticCustomError(
                "size_type",
                "a size is a whole number and a unit ({units})",
                {"units": ", ".join(cls.units), "fix": fix},
            )
        try:
            return cls.parse(value)
        except ValueError as error:
            raise PydanticCustomError("size", "{reason}", {"reason": str(error), "fix": fix}) from error

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validate, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "pattern": cls.pattern(), "examples": [cls.example]}

    @property
    def mebibytes(self) -> int:
        """Rounded up, as nova counts memory."""
        return -(-self.bytes // 2**20)

    @property
    def gibibytes(self) -> int:
        """Rounded up, as nova counts disks."""
        return -(-self.bytes // 2**30)

    def __add__(self, other: Size) -> Size:
        return Size(self.bytes + other.bytes)

    def __mul__(self, times: int) -> Size:
        return Size(self.bytes * times)


DNS_LABEL_PATTERN = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
RESOURCE_NAME_PATTERN = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,253}[A-Za-z0-9])?$"
DOMAIN_PATTERN = r"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$"
DATABASE_PATTERN = r"^[a-z_][a-z0-9_]{0,62}$"
ENVIRONMENT_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*$"
ISSUER_PATTERN = (
    r"^https://[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(:[1-9][0-9]{0,4})?(/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*)?$"
)
HTTPS_PATTERN = ISSUER_PATTERN[:-1] + r"(\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?$"
AUDIENCE_PATTERN = r"^[!-~]{1,255}$"
LABEL_KEY_PATTERN = r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
BUCKET_PATTERN = r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$"
DATA_ITEM_PATTERN = r"^(export|database)/[a-z0-9_-]{1,63}$"
LOGIN_PATTERN = r"^[a-z_][a-z0-9_-]{0,31}$"
USER_PATTERN = r"^(?!service-account-)[a-z_][a-z0-9_-]{2,31}$"
USER_RULE = (
    "must be lower-case letters, digits, dashes and underscores, 3 to 32, not beginning with a digit, a dash or "
    "service-account-"
)
_ATOM = r"[^\x00-\x20\x7f-\xa0@.,;:<>()\[\]\\\"]+"
_PART = r"[a-zA-Z0-9\u00a1-\uffff]([a-zA-Z0-9\u00a1-\uffff-]{0,61}[a-zA-Z0-9\u00a1-\uffff])?"
EMAIL_PATTERN = rf"^(?=[^@]{{1,64}}@){_ATOM}(\.{_ATOM})*@{_PART}(\.{_PART})+$"
PUBLIC_KEY_PATTERN = (
    r"^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)"
    r" AAAA[A-Za-z0-9+/]{20,}={0,2}( [ -~]{1,200})?$"
)
SETTING_PATTERN = r"^[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?$"
Hint = Callable[[str], str | None]
"""From a wrong text to the fix, None if it is unknown."""
LABEL_VALUE_PATTERN = r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$"
TAINT_PATTERN = LABEL_KEY_PATTERN[:-1] + r"(=[A-Za-z0-9._-]{0,63})?:(NoSchedule|PreferNoSchedule|NoExecute)$"


def _matching(pattern: str, rule: str, example: str, maximum: int, hint: Hint | None) -> Any:
    """A validator that puts the rule in words, where pydantic would print the regular expression."""
    compiled = re.compile(pattern[1:-1])

    def check(value: str) -> str:
        if len(value) > maximum or compiled.fullmatch(value) is None:
            fix = (hint(value) if hint else None) or f"for instance {example}"
            raise PydanticCustomError("name", "{rule}", {"rule": rule, "fix": fix})
        return value

    return AfterValidator(check)


def _named(pattern: str, rule: str, example: str, maximum: int, hint: Hint | None = None) -> tuple[Any, Any]:
    schema = {"type": "string", "pattern": pattern, "maxLength": maximum}
    return _matching(pattern, rule, example, maximum, hint), WithJsonSchema(schema)


_LABEL = _named(
    DNS_LABEL_PATTERN,
    "must be lower-case letters, digits and dashes, at most 63, as DNS and Kubernetes accept (RFC 1123)",
    "gpu-worker-1",
    63,
    suggestions.label,
)
_RESOURCE = _named(
    RESOURCE_NAME_PATTERN,
    "must be letters, digits, dots, dashes and underscores, at most 255, as OpenStack accepts",
    "gpu.v100.1",
    255,
)
_DOMAIN = _named(
    DOMAIN_PATTERN,
    "must be a lower-case domain name with at least one dot, its last part beginning with a letter",
    "ml.example.org",
    253,
    suggestions.domain,
)
_DATABASE = _named(
    DATABASE_PATTERN,
    "must be lower-case letters, digits and underscores, at most 63, as PostgreSQL accepts unquoted",
    "mlflow",
    63,
)
_VARIABLE = _named(
    ENVIRONMENT_PATTERN,
    "must be letters, digits and underscores, not beginning with a digit",
    "STRATA_SECRET_TOKEN",
    255,
)
_ISSUER = _named(
    ISSUER_PATTERN,
    "must be https://, a host and perhaps a port and a path; no user, no query (RFC 8414)",
    "https://login.example.org/realms/ml",
    2048,
)
_HTTPS = _named(
    HTTPS_PATTERN,
    "must be https://, a host and perhaps a port, a path and a query; no user",
    "https://login.example.org/realms/ml/protocol/openid-connect/certs",
    2048,
)
_HOST_PORT = _named(
    r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?:[1-9][0-9]{0,4}$",
    "must be a host and a port",
    "mail.example.org:587",
    260,
)
_AUDIENCE = _named(
    AUDIENCE_PATTERN, "must be printable ASCII without spaces, at most 255", "https://ml.example.org/", 255
)
_LABEL_KEY = _named(LABEL_KEY_PATTERN, "must be a Kubernetes label key", "strata.dev/pool", 317)
_LABEL_VALUE = _named(
    LABEL_VALUE_PATTERN, "must be a Kubernetes label value: letters, digits, '.', '_', '-', at most 63", "gpu", 63
)
_TAINT = _named(
    TAINT_PATTERN,
    "must be key=value:effect, effect one of NoSchedule, PreferNoSchedule, NoExecute",
    "nvidia.com/gpu=present:NoSchedule",
    400,
)
_BUCKET = _named(
    BUCKET_PATTERN,
    "must be the name of a bucket: 3 to 63 lower-case letters, digits, dots and dashes",
    "site-backups",
    63,
)
_DATA_ITEM = _named(
    DATA_ITEM_PATTERN, "must be export/NAME or database/NAME, as `strata backup` lists them", "export/scratch", 127
)
_LOGIN = _named(
    LOGIN_PATTERN,
    "must be lower-case letters, digits, dashes and underscores, at most 32, as useradd accepts",
    "ada",
    32,
)
_USER = _named(USER_PATTERN, USER_RULE, "ada", 32)
_EMAIL = _named(EMAIL_PATTERN, "must be an e-mail address", "ada@example.org", 254)
_PUBLIC_KEY = _named(
    PUBLIC_KEY_PATTERN,
    "must be one line of an OpenSSH public key file: type, key, comment",
    "the content of ~/.ssh/id_ed25519.pub",
    16384,
)
_SETTING = _named(SETTING_PATTERN, "must be the name of a setting, as in postgresql.conf", "work_mem", 127)

_PCI_IDENTIFIER = _named(
    r"^[0-9a-f]{4}$",
    "must be four lower-case hexadecimal digits, as `lspci -nn` shows in [vendor:product]",
    '"10de"',
    4,
    suggestions.pci_identifier,
)
_PCI_ADDRESS = _named(
    r"^[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$",
    "must be the address of a PCI device, as `lspci -D` shows",
    '"0000:3b:00.0"',
    12,
    suggestions.pci_address,
)
_COMPUTE_CAPABILITY = _named(
    r"^([5-9]|[1-9][0-9])\.[0-9]$",
    "must be NVIDIA's compute capability, at least 5.0, the oldest that its driver 580 supports",
    '"8.6"',
    4,
)
_EXTENDED_RESOURCE = _named(
    r"^[a-z0-9]([a-z0-9.-]{0,200}[a-z0-9])?/[a-z]([a-z0-9.-]{0,61}[a-z0-9])?$",
    "must be a domain, / and a name of lower-case letters, digits, dots and dashes that begins with a letter",
    "amd.com/gpu",
    255,
)
_PRODUCT_NAME = _named(
    r"^[!-~]([ -~]{0,98}[!-~])?$", "must be printable ASCII on one line, at most 100", "NVIDIA A10", 100
)

DnsLabel = Annotated[str, _LABEL[0], _LABEL[1]]
"""Name of a host, a cluster, a namespace: RFC 1123 label."""
ResourceName = Annotated[str, _RESOURCE[0], _RESOURCE[1]]
"""Name of an OpenStack flavor, image, network or project."""
DomainName = Annotated[str, _DOMAIN[0], _DOMAIN[1]]
DatabaseName = Annotated[str, _DATABASE[0], _DATABASE[1]]
VariableName = Annotated[str, _VARIABLE[0], _VARIABLE[1]]
BucketName = Annotated[str, _BUCKET[0], _BUCKET[1]]
DataItem = Annotated[str, _DATA_ITEM[0], _DATA_ITEM[1]]
"""What a host stores: an NFS export or a database."""
LoginName = Annotated[str, _LOGIN[0], _LOGIN[1]]
"""Login of an operating system."""
UserName = Annotated[str, _USER[0], _USER[1]]
"""Login of a user at the site's issuer."""
EmailAddress = Annotated[str, _EMAIL[0], _EMAIL[1]]
PublicKey = Annotated[str, _PUBLIC_KEY[0], _PUBLIC_KEY[1]]
"""A line of an OpenSSH public key file."""
SettingName = Annotated[str, _SETTING[0], _SETTING[1]]
"""Name of a setting of PostgreSQL; an extension's has a dot."""
IssuerUrl = Annotated[str, _ISSUER[0], _ISSUER[1]]
"""The `iss` claim of tokens."""
HostPort = Annotated[str, _HOST_PORT[0], _HOST_PORT[1]]
HttpsUrl = Annotated[str, _HTTPS[0], _HTTPS[1]]
Audience = Annotated[str, _AUDIENCE[0], _AUDIENCE[1]]
"""The `aud` claim of tokens."""
LabelKey = Annotated[str, _LABEL_KEY[0], _LABEL_KEY[1]]
LabelValue = Annotated[str, _LABEL_VALUE[0], _LABEL_VALUE[1]]
Taint = Annotated[str, _TAINT[0], _TAINT[1]]
PciIdentifier = Annotated[str, _PCI_IDENTIFIER[0], _PCI_IDENTIFIER[1]]
"""Vendor or product of a PCI device."""
PciAddress = Annotated[str, _PCI_ADDRESS[0], _PCI_ADDRESS[1]]
"""Domain, bus, slot and function of a PCI device on its host."""
ComputeCapability = Annotated[str, _COMPUTE_CAPABILITY[0], _COMPUTE_CAPABILITY[1]]
ExtendedResource = Annotated[str, _EXTENDED_RESOURCE[0], _EXTENDED_RESOURCE[1]]
"""What pods request of a Kubernetes node's devices."""
ProductName = Annotated[str, _PRODUCT_NAME[0], _PRODUCT_NAME[1]]


class SiteFile(str):
    """Path of a file that belongs to a site, relative to its site.yaml."""

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """As a text."""
        return core_schema.no_info_after_validator_function(cls, core_schema.str_schema(min_length=1, max_length=4096))


Count = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
"""A positive number of things."""
_HOURS = [hours for hours in range(1, 25) if 24 % hours == 0]


def _divides_a_day(value: int) -> int:
    if value not in _HOURS:
        *most, last = _HOURS
        fix = f"{', '.join(map(str, most))} or {last}"
        raise PydanticCustomError("hours_interval", "does not divide a day", {"fix": fix})
    return value


HoursInterval = Annotated[
    int, Field(strict=True), AfterValidator(_divides_a_day), WithJsonSchema({"type": "integer", "enum": _HOURS})
]
"""Hours between the runs of something that starts at the same hours each day."""
GroupId = Annotated[int, Field(strict=True, ge=1000, le=2**31 - 1)]
"""Numeric group of files; the distribution's own groups are below 1000."""


def _setting_value(value: object) -> object:
    """One rule for all types, where pydantic would report a problem for each."""
    if isinstance(value, float) and not math.isfinite(value):
        raise PydanticCustomError("setting_value", "is not a number", {"fix": "a finite number"})
    if not isinstance(value, bool | int | float | str) or (isinstance(value, str) and not value.isprintable()):
        raise PydanticCustomError(
            "setting_value", "must be a text of one line, a number, true or false", {"fix": "for instance 64MB"}
        )
    return value


SettingValue = Annotated[
    bool | int | float | str,
    BeforeValidator(_setting_value),
    WithJsonSchema({"type": ["boolean", "number", "string"], "pattern": "^[^\\n]*$"}),
]
"""Value of a setting of PostgreSQL, units as in postgresql.conf."""


def is_address(host: str) -> bool:
    """Whether a host, for instance of a URL, is an IP address and no name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _parse_address(value: object) -> object:
    """Done here, because pydantic would take a plain number for an address and report each IP version of its own."""
    if isinstance(value, IPv4Address | IPv6Address):
        return value
    try:
        if isinstance(value, str):
            return ip_address(value)
    except ValueError:
        pass
    raise PydanticCustomError("address", "is not an IP address", {"fix": "for instance 10.0.0.1"})


def _parse_network(value: object) -> object:
    if isinstance(value, IPv4Network | IPv6Network):
        return value
    if not isinstance(value, str):
        raise PydanticCustomError("network", "is not a network", {"fix": "for instance 10.0.0.0/24"})
    fix = suggestions.network(value) or "for instance 10.0.0.0/24"
    try:
        network = ip_network(value, strict=False)
    except ValueError:
        raise PydanticCustomError("network", "is not a network", {"fix": fix}) from None
    if "/" not in value:
        raise PydanticCustomError("network_prefix", "has no prefix length", {"fix": f"for instance {value}/24"})
    if not value.rpartition("/")[2].isdecimal():
        # ipaddress takes masks too, and turns one that is not a mask into the network of a router's wildcard
        raise PydanticCustomError("network_mask", "has a mask where its prefix length should be", {"fix": fix})
    address = ip_address(value.partition("/")[0])
    if address != network.network_address:
        raise PydanticCustomError(
            "network_host_bits", "is an address inside a network, not the network", {"fix": str(network)}
        )
    return network


def _parse_network4(value: object) -> object:
    network = _parse_network(value)
    if not isinstance(network, IPv4Network):
        raise PydanticCustomError("network_version", "must be an IPv4 network", {"fix": "for instance 10.0.0.0/24"})
    return network


def _parse_network6(value: object) -> object:
    network = _parse_network(value)
    if not isinstance(network, IPv6Network):
        raise PydanticCustomError("network_version", "must be an IPv6 network", {"fix": "for instance fd00:77::/64"})
    return network


_ADDRESS4 = {"type": "string", "format": "ipv4"}
_ADDRESS6 = {"type": "string", "format": "ipv6"}
_NETWORK = {"type": "string", "pattern": r"^[0-9a-fA-F:.]+/[0-9]{1,3}$", "examples": ["10.77.0.0/24"]}

IPAddress = Annotated[
    IPv4Address | IPv6Address,
    BeforeValidator(_parse_address),
    WithJsonSchema({"type": "string", "anyOf": [_ADDRESS4, _ADDRESS6]}),
]
IPNetwork = Annotated[IPv4Network | IPv6Network, BeforeValidator(_parse_network), WithJsonSchema(_NETWORK)]
IPv6Net = Annotated[IPv6Network, BeforeValidator(_parse_network6), WithJsonSchema(_NETWORK)]
IPv4Net = Annotated[IPv4Network, BeforeValidator(_parse_network4), WithJsonSchema(_NETWORK)]


def _absolute(value: Path) -> Path:
    if not value.is_absolute() or ".." in value.parts:
        raise PydanticCustomError(
            "absolute_path", "must be an absolute path without '..'", {"fix": "for instance /srv/nfs/data"}
        )
    return value


AbsolutePath = Annotated[Path, AfterValidator(_absolute), WithJsonSchema({"type": "string", "pattern": "^/"})]


def is_uuid(text: str) -> bool:
    """Whether a text is the ID of an OpenStack object, rather than its name."""
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False
