"""Changes of a pod's row that several parts make."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, RowMapping, func, null, update

from pods.tables import LOG_ACTION, WITHOUT_INSTANCE, pods


def new_run(before: int) -> dict[str, Any]:
    """Columns of the begin of the run after another."""
    return {
        "status_requested": "ON",
        "status": "REQUESTED",
        "status_container": {},
        "run": before + 1,
        "run_spec": null(),
        "spec": WITHOUT_INSTANCE,
        "start_instance_ts": None,
        "time_to_stop_ts": None,
        "gpu_idle_stop_ts": None,
        "stop_reason": "",
    }


def change(connection: Connection, row: RowMapping, *conditions: Any, **columns: Any) -> bool:
    """Writes columns unless the API has changed the request since the row was read; whether it did.

    Args:
        connection: of the reconciler.
        row: as it was read.
        conditions: further ones.
        columns: to be written.
    """
    unchanged = (
        pods.c.pod_id == row["pod_id"],
        pods.c.run == row["run"],
        pods.c.status_requested == row["status_requested"],
        pods.c.deleted == row["deleted"],
    )
    changed = {**columns, "update_ts": func.now()}
    return connection.execute(update(pods).where(*unchanged, *conditions).values(changed)).rowcount == 1


def note(connection: Connection, row: RowMapping, line: str) -> None:
    """Adds an entry to the pod's action log."""
    connection.execute(LOG_ACTION, {"pod_id": row["pod_id"], "line": line})
