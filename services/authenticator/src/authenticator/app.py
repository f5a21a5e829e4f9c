"""The application: settings in, ASGI out."""

from __future__ import annotations

from fastapi import FastAPI

from authenticator.exchange import Exchange
from authenticator.issuer import TokenEndpoint
from authenticator.migrations import MIGRATIONS
from authenticator.routes import authorize, personal_access_tokens, revoke, sites, tokens, userinfo
from authenticator.settings import Settings
from authenticator.web.pages import PAGES
from strata_http import app
from strata_http.app import Api
from strata_http.envelope import ENVELOPE
from strata_http.web import mount

API = Api(
    title="Authenticator",
    version="3",
    summary="Logins, sites and tenants for clients of the API.",
    path="/v3",
    routers=(userinfo.router, personal_access_tokens.router),
    public_routers=(sites.router, tokens.router, revoke.router, authorize.router),
    migrations=MIGRATIONS,
    errors=ENVELOPE,
    document="/v3/oauth2",
)


def create_app(settings: Settings) -> FastAPI:
    """The API, and the pages at a name of their own."""
    made = app.create_app(API, settings)
    made.state.settings = settings
    made.state.token_endpoint = TokenEndpoint(settings)
    made.state.exchange = Exchange(settings, made.state.token_endpoint)
    mount.install(made, PAGES, settings)
    return made
