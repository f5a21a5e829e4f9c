"""`python -m example.web`: a service without a database that has pages at a name of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Form
from fastapi.responses import Response
from pydantic_settings import SettingsConfigDict
from starlette.requests import Request

from strata_http import commands, server
from strata_http.app import Api, create_app
from strata_http.settings import HttpSettings, WebSettings
from strata_http.web.guards import Visitor
from strata_http.web.mount import Web, install
from strata_http.web.rendering import Entry
from strata_http.web.responses import go_to, render

router = APIRouter()
api = APIRouter()
NOTES: list[str] = []


class Settings(HttpSettings, WebSettings):
    """Of the service."""

    model_config = SettingsConfigDict(env_prefix="EXAMPLE_")

    audience: str = "example"


@api.get("/notes")
def list_notes() -> list[str]:
    """Of the API, which has another name."""
    return NOTES


@router.get("/")
@router.get("/notes")
def show(request: Request, _: Visitor) -> Response:
    """All notes."""
    return render(request, "notes.html", notes=NOTES)


@router.post("/notes")
def add(visitor: Visitor, text: Annotated[str, Form(max_length=20)]) -> Response:
    """One more."""
    NOTES.append(f"{visitor.username}: {text}")
    return go_to("/notes")


@router.get("/broken")
def fail() -> Response:
    """An error that nothing expects."""
    raise LookupError("secret detail")


if __name__ == "__main__":
    settings = commands.read_settings(Settings)
    app = create_app(Api("Notes", "1", "An example.", "/v1", (api,)), settings)
    install(app, Web("Notes", Path(__file__).with_name("templates"), (router,), (Entry("All", "/notes"),)), settings)
    server.serve(app, settings)
