"""The cluster's volumes on the site's NFS server."""

from __future__ import annotations

from strata.catalogue.service import Values
from strata.catalogue.site_volumes import volumes
from strata.models.site import Site
from strata.roles import roles

CHART = "shared-volumes"


def values(site: Site) -> Values:
    """Values of helm/shared-volumes; the server by name, because a volume's source cannot change."""
    (name,) = roles()["nfs_server"].dns_names
    return {
        "server": f"{name}.{site.domain}",
        "volumes": [
            {
                "name": volume.name,
                "claim": volume.claim,
                "namespace": volume.namespace,
                "path": volume.path,
                "size": volume.size,
                "readOnly": volume.read_only,
                **({"server": volume.server} if volume.server else {}),
            }
            for volume in volumes(site)
        ],
    }
