"""Variables of the role registry, and who may use it."""

from __future__ import annotations

from strata.inventory import Template
from strata.inventory.ports import REGISTRY, REGISTRY_PUSH
from strata.inventory.topology import service_certificate
from strata.models import Site
from strata.site.outputs import CloudOutputs

OPERATOR = "operator"
"""User that pushes and deletes; the deployment host."""
OPERATOR_SECRET = "registry_operator_password"  # noqa: S105  # its name
NODES = "nodes"
"""User of the container runtime of every node; it only pulls."""
NODES_SECRET = "registry_nodes_password"  # noqa: S105  # its name


def pull_users(site: Site) -> dict[str, str]:
    """User to the name of the secret with its password."""
    robots = {f"robot-{name}": f"registry_robot_{name}_password" for name in site.hosts.registry.robots}
    return {NODES: NODES_SECRET, **robots}


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
