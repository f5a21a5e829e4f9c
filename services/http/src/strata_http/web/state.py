"""What the pages of a service share, in the state of its application."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from fastapi import Request

from strata_http.login import Login
from strata_http.sessions import Sessions
from strata_http.settings import WebSettings
from strata_http.web.access_tokens import AccessTokens
from strata_http.web.rendering import Renderer


@dataclass(frozen=True)
class State:
    """Of the pages of one service.

    Args:
        settings: of the service.
        renderer: of its pages.
        login: at the issuer.
        sessions: of its name.
        tokens: of its visitors; None where no page needs them.
    """

    settings: WebSettings
    renderer: Renderer
    login: Login
    sessions: Sessions
    tokens: AccessTokens | None = None

    @property
    def origin(self) -> str:
        """Scheme, name and port."""
        return self.settings.web_origin

    @property
    def host(self) -> str:
        """Name and port, which sessions are for."""
        return urlsplit(self.origin).netloc


def state_of(request: Request) -> State:
    """Of the running service."""
    state: State = request.app.state.web
    return state
