"""Which ports of pods are behind a login, and whom they let in."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from pods.spec import MEMBERS, Networking, PodSpec, label
from pods.tables import pods
from strata_http.tokens import Caller


@dataclass(frozen=True)
class ProtectedPort:
    """A port behind a login.

    Args:
        host: its name.
        session: what sessions are for: the name of this pod, and not of one that has the same name later.
        tenant: of the pod.
        entry: of the pod's present run.
        allowed_users: as the owner has them now.
    """

    host: str
    session: str
    tenant: str
    entry: Networking
    allowed_users: frozenset[str]

    def admits(self, caller: Caller) -> bool:
        """Whether the caller is a member of the pod's tenant, and on the list."""
        return self.tenant in caller.tenants and not self.allowed_users.isdisjoint({MEMBERS, caller.username})


async def find_port(connection: AsyncConnection, domain: str, pod_id: str, key: str) -> ProtectedPort | None:
    """The port by the pod's id and its key in `networking`; None where there is none with a login."""
    query = select(pods.c.tenant, pods.c.spec, pods.c.run_spec, pods.c.creation_ts)
    row = (await connection.execute(query.where(pods.c.pod_id == pod_id, pods.c.deleted.is_(False)))).one_or_none()
    if row is None:
        return None
    entry = _entry(row.run_spec or row.spec, key)
    if entry is None or not entry.tapis_auth:
        return None
    # who is taken off the list is out at once; other changes are for the next run
    now = _entry(row.spec, key)
    allowed = entry if now is None or not now.tapis_auth else now
    host = f"{label(pod_id, key)}.{domain}"
    session = f"{host} {row.creation_ts.timestamp()}"
    return ProtectedPort(host, session, row.tenant, entry, frozenset(allowed.tapis_auth_allowed_users))


def _entry(spec: dict[str, object], key: str) -> Networking | None:
    return PodSpec.model_validate(spec).networking.get(key)
