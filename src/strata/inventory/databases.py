"""Databases of the site's PostgreSQL."""

from __future__ import annotations

from strata.models import Site
from strata.site.data_protection import KINE_DATABASE


def databases(site: Site) -> tuple[str, ...]:
    """Databases of the site, with the one that the cluster's datastore needs."""
    named = tuple(site.hosts.postgresql.databases) if site.hosts.postgresql else ()
    extra = (KINE_DATABASE,) if site.cluster is not None and site.cluster.datastore == "kine" else ()
    return tuple(dict.fromkeys((*named, *extra)))
