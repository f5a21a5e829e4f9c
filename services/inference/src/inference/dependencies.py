"""What routes are given."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Request

from inference.bodies import Json, read_object
from inference.forwarding import Forwarder
from inference.models import Models
from strata_http import audit
from strata_http.bearer import require_token
from strata_http.envelope import ENVELOPE
from strata_http.tokens import Caller

Person = Annotated[Caller, Depends(require_token)]
NO_MODEL = ENVELOPE.described({404: "No such model, or one of other tenants."})
ASKED = ENVELOPE.described(
    {
        400: "A body that cannot be; or two tokens that differ.",
        404: "No such model, or one of other tenants.",
        413: "A body that is too long.",
        429: "More requests than the limits; Retry-After has when to retry.",
        500: "The model server failed.",
        502: "The model server ended while it answered.",
        503: "The model does not start, or not yet: the message gives the reason, and Retry-After when to try again.",
        504: "The model server took too long.",
        507: "The request needs more memory than there is.",
    }
)
"""`responses` of a route that asks a model."""


def models_of(request: Request) -> Models:
    """The models of the site."""
    models: Models = request.app.state.models
    return models


def forwarder_of(request: Request) -> Forwarder:
    """What asks them."""
    forwarder: Forwarder = request.app.state.forwarder
    return forwarder


async def read_body(request: Request, _: Person) -> Json:
    """The body of a request to a model, which changes nothing of the site; read after the token."""
    audit.skip(request)
    return await read_object(request, request.app.state.settings.body_bytes)


SiteModels = Annotated[Models, Depends(models_of)]
ModelServers = Annotated[Forwarder, Depends(forwarder_of)]
Body = Annotated[Json, Depends(read_body)]


def described_body(**properties: Any) -> dict[str, Any]:
    """`openapi_extra` of a route whose body is read by `Body`.

    Args:
        properties: schemas of the required fields; others are the model server's.
    """
    schema = {"type": "object", "required": list(properties), "properties": properties}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
