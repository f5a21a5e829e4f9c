"""Shared state: for which sites, and who can open it."""

from __future__ import annotations

from collections.abc import Iterator

from strata.models.finding import Finding
from strata.models.site import Site


def check(site: Site) -> Iterator[Finding]:
    """A lab belongs to one deployment host; operators are listed once."""
    if site.state is None:
        return
    if site.cloud is not None and site.cloud.on_deployment_host:
        yield Finding(("state",), "a lab runs on one deployment host", "remove the section", (("cloud", "deployment"),))
    names: set[str] = set()
    for index, operator in enumerate(site.state.operators):
        if operator.name in names:
            yield Finding(("state", "operators", index, "name"), "duplicate operator", "one entry per operator", ())
        names.add(operator.name)
