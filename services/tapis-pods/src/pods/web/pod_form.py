"""The form of a new pod: what users write, as the body that the API takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from pods.settings import Tenant
from pods.spec import DEFAULT, NewPod, PodSpec
from pods.templates import Tag

SECONDS_PER_HOUR = 3600
NAME_RULE = "3 to 58 lower-case letters and digits, the first of them a letter"
LABELS = {
    "pod_id": "Name",
    "description": "Description",
    "environment_variables": "Variables",
    "time_to_stop_default": "Hours",
    "resources": "GPUs",
    "compute_queue": "Project",
}
"""Of the form's fields, by those of the API."""


API_FIELDS = {"pod_id": "Name", "compute_queue": "Project", "resources.gpus": "GPUs"}
"""That refusals of the API begin with."""


class Fields(BaseModel):
    """What the form sends, as it is written, so that the form can be shown again with it."""

    name: str = ""
    description: str = ""
    project: str = ""
    variables: str = ""
    gpus: str = ""
    hours: str = ""
    login: str = ""


class FormError(Exception):
    """What was written cannot be; `messages` has what, and what can."""

    def __init__(self, *messages: str) -> None:
        super().__init__("; ".join(messages))
        self.messages = messages


@dataclass(frozen=True)
class PodForm:
    """The form for one template.

    Args:
        reference: of the template, as the API takes it.
        tag: state of the template.
    """

    reference: str
    tag: Tag

    @property
    def spec(self) -> PodSpec:
        """What the template sets, with the API's defaults."""
        return PodSpec.model_validate({"image": "", **self.tag.pod_definition})

    @property
    def offers_login(self) -> bool:
        """Whether a page of the template's pods can have a login in front of it that the template does not set."""
        entry = self.spec.networking.get(DEFAULT)
        return entry is not None and entry.protocol == "http" and not entry.tapis_auth

    @property
    def has_login(self) -> bool:
        """Whether the template itself sets a login."""
        return any(entry.tapis_auth for entry in self.spec.networking.values())

    def pod(self, sent: Fields) -> NewPod:
        """The body of the request that creates the pod.

        Raises:
            FormError: a field cannot be.
        """
        content: dict[str, Any] = {"pod_id": sent.name.strip(), "template": self.reference}
        if sent.description.strip():
            content["description"] = sent.description.strip()
        if sent.project:
            content["compute_queue"] = sent.project
        if variables := parse_variables(sent.variables):
            content["environment_variables"] = variables
        if sent.gpus.strip():
            content["resources"] = {"gpus": sent.gpus.strip()}
        if sent.hours.strip():
            content["time_to_stop_default"] = parse_hours(sent.hours)
        if sent.login and self.offers_login:
            # an entry replaces that of the template as a whole
            entry: Mapping[str, Any] = self.tag.pod_definition.get("networking", {}).get(DEFAULT, {})
            content["networking"] = {DEFAULT: {**entry, "tapis_auth": True}}
        try:
            return NewPod.model_validate(content)
        except ValidationError as error:
            raise FormError(*dict.fromkeys(map(_message, error.errors(include_url=False)))) from None


def first_values(tag: Tag, tenants: Sequence[Tenant]) -> Fields:
    """What the form shows before anything is written.

    Args:
        tag: of the template.
        tenants: in which the user may create pods.
    """
    spec = PodForm("", tag).spec
    seconds = spec.time_to_stop_default
    return Fields(
        project=tenants[0].name if tenants else "",
        gpus=str(spec.resources.gpus),
        hours=f"{seconds / SECONDS_PER_HOUR:g}" if seconds > 0 else "0",
    )


def in_words(refusal: str) -> str:
    """A refusal of the API, with the form's word for the field."""
    field, colon, rest = refusal.partition(": ")
    return f"{API_FIELDS.get(field, field)}{colon}{rest}"


def parse_variables(text: str) -> dict[str, str]:
    """Lines NAME=value; empty ones do not count.

    Raises:
        FormError: a line has no name, or a name is a duplicate.
    """
    variables: dict[str, str] = {}
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        name, equals, value = line.partition("=")
        name = name.strip()
        if not line.strip():
            continue
        # the line itself may be a password
        if not equals or not name:
            raise FormError(f"Variables, line {number}: write NAME=value")
        if name in variables:
            raise FormError(f"Variables, line {number}: duplicate {name}")
        variables[name] = value
    return variables


def parse_hours(text: str) -> int:
    """Seconds, or the API's word for never.

    Raises:
        FormError: it is not a number of hours.
    """
    try:
        hours = float(text)
    except ValueError:
        hours = math.nan
    if not math.isfinite(hours) or hours < 0:
        raise FormError("Hours: write a number, such as 12 or 0.5; 0 is never")
    return round(hours * SECONDS_PER_HOUR) if hours else -1


def _message(error: Mapping[str, Any]) -> str:
    where = [str(part) for part in error["loc"]]
    if where[:1] == ["pod_id"] and error["type"].startswith("string_"):
        return f"Name: {NAME_RULE}"
    field = LABELS.get(where[0], where[0]) if where else ""
    text = str(error["msg"]).removeprefix("Value error, ")
    # of variables, which one
    part = f" {where[1]}" if where[:1] == ["environment_variables"] and len(where) > 1 else ""
    return f"{field}{part}: {text}" if field else text
