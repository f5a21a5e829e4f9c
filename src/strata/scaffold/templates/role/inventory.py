"""Variables of the role example_role."""

from __future__ import annotations

from strata.models.site import Site
from strata.roles import port
from strata.site.outputs import CloudOutputs
from strata_roles.example_role.settings import ExampleRole


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:  # noqa: ARG001  # one signature for all roles
    """The text follows from the site; nothing for a site without the section."""
    settings = site.hosts.section(ExampleRole)
    if settings is None:
        return {}
    return {"example_role_port": port("example_role"), "example_role_text": f"{settings.greeting} {site.name}."}
