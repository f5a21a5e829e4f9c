"""The servers that replicate a site's databases: etcd on them, and their data, do not follow the site file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strata.engine.changes.disruption import SECTIONS, Applied
from strata.errors import UserError
from strata.layers import Layer
from strata.site.context import SiteContext
from strata.site.host_list import POSTGRESQL


def require_same_servers(context: SiteContext) -> None:
    """Refuses that some of several servers leave or others join.

    One server becomes several; and others may take the place of all, with a backup restored there.

    Raises:
        UserError: naming the servers of the last success.
    """
    applied = Applied.load(context.paths)
    before = _servers(applied.sections if applied else {})
    now = _servers(context.site.model_dump(mode="json"))
    if len(before) < 2 or set(now) == set(before) or not set(now) & set(before):
        return
    raise UserError(
        f"{context.site_file}: roles: postgresql on {', '.join(now)}: the databases are replicated on "
        f"{', '.join(before)}, which change together or not at all",
        fix=f"give the role to {', '.join(before)} alone; or to new hosts alone, and restore a backup (docs/hosts.md)",
    )


def _servers(sections: Mapping[str, Any]) -> list[str]:
    """Names of the hosts with the role, from the content of a site file."""
    cloud, hosts = sections.get(SECTIONS[Layer.CLOUD]) or {}, sections.get(SECTIONS[Layer.HOSTS]) or {}
    candidates = (*cloud.get("instances", ()), *hosts.get("machines", ()))
    return [host["name"] for host in candidates if POSTGRESQL in host["roles"]]
