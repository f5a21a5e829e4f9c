"""Greetings over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from strata.models.site import Site
from strata.roles import port
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with
from strata.verify.needs import needs, role
from strata_roles.example_role.settings import ExampleRole

if TYPE_CHECKING:
    from testinfra.host import Host


@needs(role("example_role"))
def test_example_role_greets(context: SiteContext, site: Site, site_host: Callable[[str], Host]) -> None:
    """The host with the role serves the greeting by its name below the site's domain."""
    settings = site.hosts.section(ExampleRole)
    assert settings is not None
    (host,) = hosts_with("example_role", site, context.cloud_outputs)
    url = f"http://example-role.{site.domain}:{port('example_role')}/"
    assert settings.greeting in site_host(host.name).check_output(f"curl --silent --show-error --fail {url}")
