"""Requests about tokens: JSON or a form, with the client's credentials in them or as HTTP Basic."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, field
from typing import Annotated, Literal, Self, TypeVar
from urllib.parse import parse_qsl

from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_core import PydanticCustomError

FORM = "application/x-www-form-urlencoded"
MAXIMUM_BYTES = 16_384
_NEEDED = {
    "password": ("username", "password"),
    "refresh_token": ("refresh_token",),
    "authorization_code": ("code", "redirect_uri"),
}

Text = Annotated[str, Field(min_length=1, max_length=2048)]
Secret = Annotated[SecretStr, Field(min_length=1, max_length=8192)]


class TokenRequest(BaseModel):
    """What a client sends; what its grant does not need is left out."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    grant_type: Literal["password", "refresh_token", "authorization_code"]
    username: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    password: Secret | None = None
    refresh_token: Secret | None = None
    code: Secret | None = None
    redirect_uri: Text | None = None
    code_verifier: Secret | None = None
    client_id: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    client_key: Secret | None = None

    @model_validator(mode="after")
    def _has_what_the_grant_needs(self) -> Self:
        missing = [name for name in _NEEDED[self.grant_type] if getattr(self, name) is None]
        if missing:
            names = " and ".join(missing)
            raise PydanticCustomError(
                "grant", "grant_type {grant} needs {names}", {"grant": self.grant_type, "names": names}
            )
        return self

    def form(self) -> dict[str, str]:
        """The parameters of the grant, as RFC 6749 has them."""
        names = ("grant_type", *_NEEDED[self.grant_type], "code_verifier")
        values = {name: getattr(self, name) for name in names}
        return {
            name: value.get_secret_value() if isinstance(value, SecretStr) else str(value)
            for name, value in values.items()
            if value is not None
        }


class RevocationRequest(BaseModel):
    """What a client sends to revoke a token; RFC 7009's token_type_hint is not needed."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    token: Secret


BodyT = TypeVar("BodyT", bound=BaseModel)


@dataclass(frozen=True)
class ClientCredentials:
    """A client of the issuer; a public one has no secret."""

    id: str
    secret: str = field(repr=False, default="")


def body_schema(kind: type[BaseModel]) -> dict[str, object]:
    """`requestBody` of the OpenAPI document."""
    schema = kind.model_json_schema()
    return {"required": True, "content": {media: {"schema": schema} for media in ("application/json", FORM)}}


async def read(request: Request, kind: type[BodyT]) -> BodyT:
    """The request's body.

    Args:
        request: of the caller.
        kind: what the body must be.

    Raises:
        HTTPException: 413 for a body of more than MAXIMUM_BYTES, 415 for another media type.
        RequestValidationError: it does not match `kind`; without its values.
    """
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media not in ("application/json", FORM):
        raise HTTPException(415, f"send application/json or {FORM}")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAXIMUM_BYTES:
            raise HTTPException(413, f"the body has more than {MAXIMUM_BYTES} bytes")
    try:
        values = json.loads(body) if media == "application/json" else _form(body.decode())
    except (ValueError, RecursionError):  # not UTF-8 included
        raise _invalid("body", "is not JSON" if media == "application/json" else "is not a form") from None
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        raise RequestValidationError([{**problem, "loc": ("body", *problem["loc"])} for problem in problems]) from None


def client_credentials(request: Request, given: TokenRequest) -> ClientCredentials | None:
    """The client that the caller names, by HTTP Basic or in the body; None: the service's own is to be used.

    Raises:
        RequestValidationError: the header is not Basic authentication.
    """
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            name, colon, secret = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            name = colon = secret = ""
        if not name or not colon:
            raise _invalid("header.authorization", "is not Basic authentication with a client's id and key")
        return ClientCredentials(name, secret)
    if given.client_id is None:
        return None
    return ClientCredentials(given.client_id, given.client_key.get_secret_value() if given.client_key else "")


def _form(text: str) -> dict[str, str]:
    pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=32)
    if len(dict(pairs)) != len(pairs):
        raise ValueError("duplicate field")
    return dict(pairs)


def _invalid(where: str, message: str) -> RequestValidationError:
    return RequestValidationError([{"loc": tuple(where.split(".")), "msg": message, "type": "value_error"}])
