"""Variables of the role registry."""

from __future__ import annotations

from strata.inventory.ports import REGISTRY
from strata.inventory.topology import service_certificate
from strata.models import Site
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """The registry at registry.<domain>:5000."""
    return {
        "registry_port": REGISTRY,
        "registry_name": f"registry.{site.domain}",
        "registry_certificate": service_certificate("registry", "registry", site, outputs),
    }
