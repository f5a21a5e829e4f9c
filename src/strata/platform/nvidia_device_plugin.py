"""NVIDIA's device plugin with GPU feature discovery, on clusters with real NVIDIA GPUs."""

from __future__ import annotations

from strata.catalogue.service import Values
from strata.models import Site
from strata.models.accelerators import NVIDIA_RESOURCE
from strata.models.cluster import Sharing
from strata.models.gpu_nodes import DEFAULT_POOL, replicas


def configurations(site: Site) -> dict[str, Values]:
    """The plugin's configuration file of each pool (version v1), and that of the nodes of no pool."""
    pools = site.cluster.gpu_nodes.pools if site.cluster else ()
    found = {DEFAULT_POOL: _configuration(Sharing())}
    return found | {pool.name: _configuration(pool.sharing) for pool in pools}


def _configuration(sharing: Sharing) -> Values:
    # single: an instance counts as nvidia.com/gpu, as a whole GPU does elsewhere
    flags = {"migStrategy": "single" if sharing.mig else "none"}
    if replicas(sharing) == 1:
        return {"version": "v1", "flags": flags}
    shared: Values = {"resources": [{"name": NVIDIA_RESOURCE, "replicas": replicas(sharing)}]}
    if sharing.mps:
        return {"version": "v1", "flags": flags, "sharing": {"mps": shared}}
    # two shares of one GPU give a pod no more time than one
    shared["failRequestsGreaterThanOne"] = True
    return {"version": "v1", "flags": flags, "sharing": {"timeSlicing": shared}}
