"""The state of a pod in users' words."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import RowMapping

from pods import status

WORDS = {
    status.REQUESTED: "Waiting to start",
    status.SETUP: "Starting",
    status.CREATING: "Starting",
    status.AVAILABLE: "Running",
    status.COMPLETE: "Finished",
    status.ERROR: "Failed",
    status.DELETING: "Stopping",
    status.STOPPED: "Stopped",
}
KINDS = {status.AVAILABLE: "good", status.ERROR: "bad"}
ENDED = frozenset({status.DELETING, status.STOPPED})


@dataclass(frozen=True)
class State:
    """What a page shows.

    Args:
        word: for users.
        status: of Tapis.
        kind: `good`, `bad` or empty.
        message: why, in Kubernetes' or the service's words; may be empty.
    """

    word: str
    status: str
    kind: str
    message: str


def state_of(row: RowMapping) -> State:
    """Of a pod's row."""
    status, message = str(row["status"]), str(row["status_container"].get("message", ""))
    if row["status_requested"] == "OFF" and status not in ENDED:
        return State("Stopping", status, "", message)
    if row["status_requested"] == "RESTART":
        return State("Restarting", status, "", message)
    return State(WORDS.get(status, status), status, KINDS.get(status, ""), message)


def can_start(row: RowMapping) -> bool:
    """Whether the API accepts a start now."""
    return bool(row["status"] == status.STOPPED and row["status_requested"] == "OFF")


def can_stop(row: RowMapping) -> bool:
    """Whether a stop or restart would change something."""
    return bool(row["status_requested"] != "OFF")
