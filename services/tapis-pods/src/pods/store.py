"""What the API writes: always one transaction, which notifies the reconciler at its end."""

from __future__ import annotations

import secrets
import string
from typing import Any

from sqlalchemy import func, update
from sqlalchemy.ext.asyncio import AsyncConnection

from pods.access import PODS
from pods.rows import new_run
from pods.tables import LOG_ACTION, NOTIFY, pods

PASSWORD_CHARACTERS = 30
_ALPHABET = string.ascii_letters + string.digits


async def create(
    connection: AsyncConnection,
    pod_id: str,
    tenant: str,
    owner: str,
    spec: dict[str, Any],
    overrides: dict[str, Any],
    requested: str,
) -> bool:
    """A new pod with its first ADMIN; False where the name is in use."""
    columns = {
        "tenant": tenant,
        "spec": spec,
        "overrides": overrides,
        "status_requested": requested,
        "status": "REQUESTED" if requested == "ON" else "STOPPED",
        "user_password": "".join(secrets.choice(_ALPHABET) for _ in range(PASSWORD_CHARACTERS)),
    }
    if not await PODS.add(connection, pod_id, owner, columns | {"owner": owner}):
        return False
    await act(connection, pod_id, f"created by {owner}")
    return True


async def act(connection: AsyncConnection, pod_id: str, line: str, **columns: Any) -> None:
    """Changes columns, notes why, and wakes the reconciler at the commit."""
    if columns:
        changed = {**columns, "update_ts": func.now()}
        await connection.execute(update(pods).where(pods.c.pod_id == pod_id).values(changed))
    await connection.execute(LOG_ACTION, {"pod_id": pod_id, "line": line})
    await connection.execute(NOTIFY, {"pod_id": pod_id})


async def start(connection: AsyncConnection, pod: Any, line: str) -> None:
    """A new run of a stopped pod; its row must be locked."""
    await act(connection, pod["pod_id"], line, **new_run(pod["run"]))
