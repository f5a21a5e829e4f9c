"""`python -m example.logins`: a service without a database that logs browsers in at its own name."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import RedirectResponse, Response
from pydantic_settings import SettingsConfigDict

from strata_http import commands, server
from strata_http.app import Api, create_app
from strata_http.login import Login, LoginFailed
from strata_http.sessions import Sessions, other_cookies, set_cookie
from strata_http.settings import HttpSettings, LoginSettings
from strata_http.tokens import IssuerUnavailable

HOST = "app.example.org"
router = APIRouter()


class Settings(HttpSettings, LoginSettings):
    """Of the service."""

    model_config = SettingsConfigDict(env_prefix="EXAMPLE_")

    audience: str = "example"


@router.get("/login")
def begin(request: Request, page: str) -> Response:
    """To the issuer."""
    login: Login = request.app.state.login
    return login.begin({"page": page})


@router.get("/callback")
def finish(request: Request) -> Response:
    """From the issuer."""
    login: Login = request.app.state.login
    sessions: Sessions = request.app.state.sessions
    try:
        done = login.finish(request)
    except LoginFailed as error:
        raise HTTPException(400, str(error)) from error
    except IssuerUnavailable as error:
        raise HTTPException(503, str(error)) from error
    response = RedirectResponse(f"https://{HOST}/v1/me?page={done.content['page']}", 303)
    sessions.start(response, HOST, done.caller)
    set_cookie(response, done.cookie, "", 0)
    return response


@router.get("/me")
def me(request: Request, host: str = HOST) -> dict[str, object]:
    """Whose session it is."""
    sessions: Sessions = request.app.state.sessions
    session = sessions.find(request, host)
    if session is None:
        raise HTTPException(401, "no session")
    return {"username": session.username, "tenants": session.tenants, "cookies": other_cookies(request)}


if __name__ == "__main__":
    settings = commands.read_settings(Settings)
    app = create_app(Api("Logins", "1", "An example.", "/v1", (), public_routers=(router,)), settings)
    app.state.login = Login(settings, f"https://{HOST}/v1/callback")
    app.state.sessions = Sessions(settings.read_session_key())
    server.serve(app, settings)
