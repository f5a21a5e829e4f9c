"""What routes of pages respond with."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse

from strata_http.web.state import state_of


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page of the running service.

    Args:
        request: that it responds to.
        template: file in the service's folder of templates.
        status: of the response.
        values: of the template's variables.
    """
    return state_of(request).renderer.page(request, template, status, **values)


def go_to(path: str) -> RedirectResponse:
    """The response to a form that changed something: the browser opens a page instead of sending the form twice."""
    return RedirectResponse(path, 303)
