"""What all pages use to respond."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from strata_http.web.rendering import Renderer


def render(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """A page of this service.

    Args:
        request: that it responds to.
        template: file in the folder of templates.
        status: of the response.
        values: of the template's variables.
    """
    renderer: Renderer = request.app.state.web_renderer
    return renderer.page(request, template, status, **values)


def go_to(path: str) -> Response:
    """The response to a form that changed something: the browser opens a page instead of sending the form twice."""
    return RedirectResponse(path, 303)
