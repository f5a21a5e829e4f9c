"""What users set for a pod, in the fields of Tapis."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from pods.mounts import MOST, Mount, completed
from pods.response_headers import HeaderName, HeaderValue, check_names_differ
from pods.values import Description, NetworkKey, PodId, Text, Username, VariableName

DEFAULT: Final = "default"
"""Key of the networking entry whose name is the pod's."""
LONGEST_LABEL = 63
Protocol = Literal["http", "tcp", "postgres", "local_only"]
LONGEST_ALLOW_LIST, MOST_USERS, MOST_HEADERS = 64, 500, 16
MEMBERS: Final = "*"
"""In a list of users: all members of the pod's tenant."""
NOT_SERVED: dict[str, Any] = {
    "cors_allow_credentials": False,
    "cors_allow_headers": [],
    "cors_allow_methods": [],
    "cors_allow_origins": [],
    "cors_max_age": 100,
    "tapis_ui_uri": "",
    "tapis_ui_uri_description": "",
    "tapis_ui_uri_redirect": False,
}
"""Fields of an entry of `networking` that only their defaults are accepted of."""
LOGIN_DEFAULTS: dict[str, Any] = {
    "tapis_auth_allowed_users": [MEMBERS],
    "tapis_auth_response_headers": {},
    "tapis_auth_return_path": "/",
}
"""Defaults of what belongs to a login."""


class _Given(BaseModel):
    model_config = ConfigDict(extra="forbid")


def _check_network(text: str) -> str:
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        network = None
    if network is None or "%" in text:
        raise ValueError(f"{text} is neither an address nor a network; write 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32")
    if "/" in text and (exact := str(network)).partition("/")[0] != str(ip_address(text.partition("/")[0])):
        raise ValueError(f"{text} is an address with the length of a network; write {exact} for the network")
    return text


Network = Annotated[str, StringConstraints(max_length=64), AfterValidator(_check_network)]


class Networking(_Given):
    """A port of the pod."""

    protocol: Protocol = Field(
        default="http",
        description="http: https://<name> leads to it; tcp, postgres: TLS to <name>:443 does; "
        "local_only: pods of the tenant reach it.",
    )
    port: int = Field(default=5000, ge=1, le=65535, description="TCP port that the pod listens on.")
    url: Annotated[Text, Field(description="Set by the service.")] = ""
    ip_allow_list: list[Network] = Field(
        default_factory=list,
        max_length=LONGEST_ALLOW_LIST,
        description="Addresses and networks (192.0.2.0/24) whose clients the name lets in; empty: all.",
    )
    tapis_auth: bool = Field(default=False, description="Whether the name lets in users who logged in alone; for http.")
    tapis_auth_allowed_users: list[Literal["*"] | Username] = Field(
        default_factory=lambda: [MEMBERS],
        min_length=1,
        max_length=MOST_USERS,
        description="Members of the pod's tenant who are let in; `*`: all of them.",
    )
    tapis_auth_response_headers: Annotated[dict[HeaderName, HeaderValue], AfterValidator(check_names_differ)] = Field(
        default_factory=dict,
        max_length=MOST_HEADERS,
        description="Headers that the pod gets with each request; <<tapisusername>> is replaced by the user's name.",
    )
    tapis_auth_return_path: Annotated[
        str,
        StringConstraints(pattern=r"^/([!-.0-\[\]-~][!-\[\]-~]*)?$", max_length=1024),
        Field(description="Path at the name where a login ends; /: the page that was requested."),
    ] = "/"

    @property
    def published(self) -> bool:
        """Whether a name leads to the port."""
        return self.protocol != "local_only"

    @model_validator(mode="after")
    def _check_allow_list(self) -> Self:
        if self.ip_allow_list and not self.published:
            raise ValueError("ip_allow_list is for protocol http, tcp and postgres: no name leads to a local_only port")
        return self

    @model_validator(mode="after")
    def _check_login(self) -> Self:
        if self.tapis_auth and self.protocol != "http":
            raise ValueError(f"tapis_auth is for protocol http, and this port has {self.protocol}")
        given = sorted(key for key in self.model_fields_set if key.startswith("tapis_auth_"))
        if not self.tapis_auth and (useless := [key for key in given if getattr(self, key) != LOGIN_DEFAULTS[key]]):
            raise ValueError(f"{useless[0]} has no effect without tapis_auth: true; set both")
        return self

    @model_validator(mode="before")
    @classmethod
    def _refuse_what_is_not_served(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        for key, default in NOT_SERVED.items():
            if key in values and values[key] != default:
                raise ValueError(f"{key} is not available at this site; leave it out")
        return {key: value for key, value in values.items() if key not in NOT_SERVED}


class Resources(_Given):
    """CPU in thousandths, memory in MiB, GPUs."""

    cpu_request: int = Field(default=250, ge=250, le=6000, description="Millicpu that is reserved.")
    cpu_limit: int = Field(default=2000, ge=250, le=6000, description="Most millicpu.")
    mem_request: int = Field(default=256, ge=256, le=12288, description="MiB that are reserved.")
    mem_limit: int = Field(default=3072, ge=256, le=12288, description="Most MiB; counted on the tenant's quota.")
    gpus: int = Field(default=0, ge=0, le=64, description="Whole GPUs.")
    gpu_minimum_utilization: int = Field(
        default=0,
        ge=0,
        le=100,
        description="Percent; a pod whose GPUs all stay below it for gpu_idle_seconds is stopped, 10 minutes after a "
        "warning; 0: never.",
    )
    gpu_idle_seconds: int = Field(default=3600, ge=600, le=86400, description="For gpu_minimum_utilization.")

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        for kind in ("cpu", "mem"):
            request, limit = getattr(self, f"{kind}_request"), getattr(self, f"{kind}_limit")
            if request > limit:
                raise ValueError(f"{kind}_request {request} is more than {kind}_limit {limit}")
        return self


def _default_networking() -> dict[str, Networking]:
    return {DEFAULT: Networking()}


TimeToStop = Annotated[int, Field(ge=-1, le=10 * 365 * 86400)]
Words = Annotated[list[Text], Field(max_length=1000)]


class Definition(_Given):
    """Fields of pods and templates."""

    description: Description = ""
    command: Words | None = None
    environment_variables: Annotated[dict[VariableName, Text], Field(max_length=500)] = Field(default_factory=dict)
    volume_mounts: Annotated[dict[Text, Mount], Field(max_length=MOST)] = Field(
        default_factory=dict, description="By the path in the pod, or by the name of the volume or snapshot."
    )
    time_to_stop_default: TimeToStop = Field(default=43200, description="Seconds that a run may take; -1: forever.")
    time_to_stop_instance: TimeToStop | None = Field(default=None, description="The same, for the present run.")
    networking: Annotated[dict[NetworkKey, Networking], Field(max_length=4)] = Field(
        default_factory=_default_networking
    )
    resources: Resources = Field(default_factory=Resources)

    @field_validator("volume_mounts")
    @classmethod
    def _complete_mounts(cls, value: dict[str, Mount]) -> dict[str, Mount]:
        return completed(value)

    @field_validator("time_to_stop_default", "time_to_stop_instance")
    @classmethod
    def _check_time(cls, value: int | None) -> int | None:
        if value is not None and value != -1 and value < 300:
            raise ValueError("must be -1 (never) or at least 300 seconds")
        return value

    @field_validator("networking")
    @classmethod
    def _check_ports(cls, value: dict[str, Networking]) -> dict[str, Networking]:
        if len({entry.port for entry in value.values()}) != len(value):
            raise ValueError("two entries have the same port")
        return value


class UpdatePod(Definition):
    """Body of PUT; fields that are left out stay as they are."""

    status_requested: Literal["ON", "OFF", "RESTART"] = "ON"


class NewPod(UpdatePod):
    """Body of POST."""

    pod_id: PodId = Field(description="Name, unique at the site.")
    image: Annotated[Text, Field(description="Image that the tenant may run.")] = ""
    template: Text = Field(
        default="", description="name, name:tag or name:tag@timestamp; sets what the pod leaves out."
    )
    arguments: Words | None = None
    compute_queue: Text = Field(default=DEFAULT, description="Tenant whose quota counts; default: your only one.")

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if not self.image and not self.template:
            raise ValueError("image is missing; set it, or template")
        check_names(self.pod_id, self.networking)
        return self


class PodDefinition(Definition):
    """What a tag of a template sets."""

    image: Annotated[Text, Field(description="Image; whoever runs it must be allowed to.")] = ""
    template: Text = Field(default="", description="Template that this one adds to, which adds to no other.")
    arguments: Words | None = None
    compute_queue: Literal["default"] = Field(default=DEFAULT, description="That of the pod.")


class PodSpec(BaseModel):
    """What is stored; the status that is requested has a column of its own."""

    image: str
    template: str = Field(default="", description="Tag of the template that the pod was made from, with its timestamp.")
    description: str = ""
    command: list[str] | None = None
    arguments: list[str] | None = None
    environment_variables: dict[str, str] = Field(default_factory=dict)
    volume_mounts: dict[str, Mount] = Field(default_factory=dict)
    time_to_stop_default: int = 43200
    time_to_stop_instance: int | None = None
    networking: dict[str, Networking] = Field(default_factory=_default_networking)
    resources: Resources = Field(default_factory=Resources)

    @property
    def seconds(self) -> int | None:
        """That a run may take; None: forever."""
        chosen = self.time_to_stop_default if self.time_to_stop_instance is None else self.time_to_stop_instance
        return None if chosen < 0 else chosen


def stored(given: Definition) -> dict[str, Any]:
    """The fields of PodSpec that were sent, and of those inside of them too."""
    names = PodSpec.model_fields.keys() & given.model_fields_set
    values = given.model_dump(mode="json", include=names, exclude_unset=True)
    for entry in values.get("networking", {}).values():
        entry.pop("url", None)
    return values


def label(pod_id: str, key: str) -> str:
    """First label of the DNS name of an entry of `networking`."""
    return pod_id if key == DEFAULT else f"{pod_id}-{key}"


def check_names(pod_id: str, networking: dict[str, Networking]) -> None:
    """Refuses names that DNS cannot have.

    Raises:
        ValueError: one is too long.
    """
    for key in networking:
        if len(name := label(pod_id, key)) > LONGEST_LABEL:
            raise ValueError(f"networking: the name {name} is longer than {LONGEST_LABEL} characters")
