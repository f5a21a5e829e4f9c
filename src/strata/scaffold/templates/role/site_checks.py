"""Greetings: errors of a site file that a key alone does not show."""

from __future__ import annotations

from collections.abc import Iterator

from strata.models.finding import Finding
from strata.models.site import Site
from strata_roles.example_role.settings import ExampleRole


def check(site: Site) -> Iterator[Finding]:
    """The site's name is not in the text twice."""
    settings = site.hosts.section(ExampleRole)
    if settings is not None and site.name in settings.greeting:
        path = ("hosts", "example_role", "greeting")
        yield Finding(path, "contains the site's name, which follows the greeting", "leave the name out", (("name",),))
