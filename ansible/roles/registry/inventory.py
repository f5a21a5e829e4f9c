"""Variables of the role registry."""

from __future__ import annotations

from strata.inventory import Template
from strata.inventory.clients import OPERATOR, OPERATOR_SECRET, pull_users
from strata.inventory.port_numbers import REGISTRY, REGISTRY_PUSH
from strata.inventory.topology import service_certificate
from strata.models.site import Site
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """The registry at registry.<domain>:5000, and for the operator at 5001."""
    return {
        "registry_port": REGISTRY,
        "registry_push_port": REGISTRY_PUSH,
        "registry_name": f"registry.{site.domain}",
        "registry_certificate": service_certificate("registry", "registry", site, outputs),
        "registry_pull_users": _htpasswd(pull_users(site)),
        "registry_push_users": _htpasswd({OPERATOR: OPERATOR_SECRET}),
    }


def _htpasswd(users: dict[str, str]) -> Template:
    return Template(f"{{{{ lookup('strata_htpasswd', {users!r}) }}}}")
