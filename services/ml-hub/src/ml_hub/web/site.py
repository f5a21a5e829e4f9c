"""All pages, as the process that serves the API has them."""

from __future__ import annotations

from pathlib import Path

from ml_hub.web import details, listing
from strata_http.health import PATHS
from strata_http.web.mount import Web
from strata_http.web.rendering import Entry

WEB = Web(
    title="Models and datasets",
    folder=Path(__file__).with_name("templates"),
    routers=(listing.router, details.router),
    menu=(Entry("Models", "/models"), Entry("Datasets", "/datasets")),
    keeps_tokens=True,
    # programs have used this name for longer than there are pages
    api_paths=("/v3/ml-hub", *sorted(PATHS)),
)
