"""Variables of the role slurm_controller."""

from __future__ import annotations

from strata.inventory.topology import secret, service_certificate
from strata.models.site import Site
from strata.roles import port
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """The key that signs tokens, and the certificate of the REST API at slurm.<domain>."""
    return {
        "slurm_controller_rest_port": port("slurm_controller", "slurmrestd"),
        "slurm_controller_jwt_key": secret("slurm_jwt_key"),
        "slurm_controller_certificate": service_certificate("slurm", "slurm_controller", site, outputs),
    }
