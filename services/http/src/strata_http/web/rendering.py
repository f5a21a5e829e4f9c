"""HTML of a service's pages: Jinja's templates in one layout, and errors as pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from strata_http.settings import WebSettings

FOLDER = Path(__file__).with_name("templates")
ERROR = "error.html"


@dataclass(frozen=True)
class Entry:
    """A link of the menu.

    Args:
        title: text of the link.
        path: that it leads to.
    """

    title: str
    path: str


class Renderer:
    """Renders the pages of one service.

    Args:
        title: of the service, in users' words.
        folder: of the service's own templates, which extend `layout.html`.
        menu: links that all pages have.
        settings: of the service.
    """

    def __init__(self, title: str, folder: Path, menu: Sequence[Entry], settings: WebSettings) -> None:
        self._environment = Environment(
            loader=FileSystemLoader([folder, FOLDER]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        front_page = str(settings.front_page_url) if settings.front_page_url else ""
        self._environment.globals |= {"service": title, "menu": menu, "front_page": front_page}
        # browsers apply form-action to redirects too: a logout, or a form that leads to a login, ends at the issuer
        issuer = urlsplit(str(settings.authorize_url))
        self._headers = {
            "Cache-Control": "no-store",
            "Content-Security-Policy": (
                "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
                f"form-action 'self' {issuer.scheme}://{issuer.netloc}; base-uri 'none'; frame-ancestors 'none'"
            ),
            "Cross-Origin-Opener-Policy": "same-origin",
            # not no-referrer: with it, browsers send forms with the Origin null
            "Referrer-Policy": "same-origin",
            "X-Content-Type-Options": "nosniff",
        }

    def page(
        self,
        request: Request,
        template: str,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        **values: Any,
    ) -> HTMLResponse:
        """A page.

        Args:
            request: that it responds to.
            template: file below the service's folder.
            status: of the response.
            headers: more of them.
            values: of the template's variables.
        """
        username = getattr(request.state, "username", None)
        text = self._environment.get_template(template).render(username=username, path=request.url.path, **values)
        return HTMLResponse(text, status, {**self._headers, **(headers or {})})

    def error(
        self, request: Request, status: int, detail: str, errors: Sequence[str], headers: Mapping[str, str] | None
    ) -> HTMLResponse:
        """The page of an error.

        Args:
            request: that failed.
            status: of the response.
            detail: what is wrong.
            errors: values that were refused.
            headers: more of them.
        """
        try:
            title = HTTPStatus(status).phrase
        except ValueError:
            title = "Error"
        return self.page(request, ERROR, status, headers, title=title, detail=detail, errors=errors)
