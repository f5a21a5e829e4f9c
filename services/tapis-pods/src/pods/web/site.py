"""All pages, as the process that serves the API has them."""

from __future__ import annotations

from pathlib import Path

from pods.routes import login
from pods.web import creating, deleting, listing, logs, pod, sharing
from strata_http.web.mount import Web
from strata_http.web.rendering import Entry

WEB = Web(
    title="Pods",
    folder=Path(__file__).with_name("templates"),
    # the routes with names of their own before the pod's actions
    routers=(listing.router, creating.router, logs.router, sharing.router, deleting.router, pod.router),
    menu=(Entry("Pods", "/"), Entry("New pod", "/new")),
    # a login in front of a pod is for whoever has no session yet
    public_routers=(login.browser_router,),
    finish=login.finish,
)
