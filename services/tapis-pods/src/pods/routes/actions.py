"""What is done with a pod: start, stop, restart, logs, credentials."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from sqlalchemy.ext.asyncio import AsyncConnection

from pods import store, templates
from pods.access import PODS, Person
from pods.logs import Reader
from pods.routes.pods import IN_USE, MISSING, PodName, set_status, settings_of
from pods.routes.shapes import Credentials, Logs, PodResult, pod_result
from pods.spec import PodSpec, stored
from strata_http.database import Connection, Transaction
from strata_http.envelope import Envelope, success
from strata_http.tokens import Caller

router = APIRouter(prefix="/pods", tags=["actions"])


async def _acted(
    request: Request, caller: Caller, pod_id: str, connection: AsyncConnection, requested: str
) -> Envelope[PodResult]:
    await set_status(request, connection, caller, pod_id, requested)
    row = await PODS.find(connection, caller, pod_id, "READ")
    return success(request, "Requested successfully.", pod_result(row, settings_of(request).domain))


@router.get("/{pod_id}/start", operation_id="start_pod", summary="Start a stopped pod", responses=MISSING | IN_USE)
@router.post(
    "/{pod_id}/start", operation_id="post_start_pod", summary="Start a stopped pod", responses=MISSING | IN_USE
)
async def start_pod(request: Request, caller: Person, pod_id: PodName, connection: Transaction) -> Envelope[PodResult]:
    """Needs ADMIN."""
    return await _acted(request, caller, pod_id, connection, "ON")


@router.get("/{pod_id}/stop", operation_id="stop_pod", summary="Stop a pod", responses=MISSING)
@router.post("/{pod_id}/stop", operation_id="post_stop_pod", summary="Stop a pod", responses=MISSING)
async def stop_pod(request: Request, caller: Person, pod_id: PodName, connection: Transaction) -> Envelope[PodResult]:
    """Needs ADMIN; the pod keeps its name, and its log until the next run ends."""
    return await _acted(request, caller, pod_id, connection, "OFF")


@router.get("/{pod_id}/restart", operation_id="restart_pod", summary="Restart a pod", responses=MISSING | IN_USE)
@router.post("/{pod_id}/restart", operation_id="post_restart_pod", summary="Restart a pod", responses=MISSING | IN_USE)
async def restart_pod(
    request: Request,
    caller: Person,
    pod_id: PodName,
    connection: Transaction,
    grab_latest_template_tag: Annotated[bool, Query(description="Use the newest state of its template's tag.")] = False,
) -> Envelope[PodResult]:
    """Needs ADMIN; starts a stopped pod too."""
    if grab_latest_template_tag:
        pod = await PODS.find(connection, caller, pod_id, "ADMIN", change=True)
        made = await templates.newest(connection, caller, settings_of(request), pod)
        spec = PodSpec.model_validate(stored(made)).model_dump(mode="json")
        if spec != pod["spec"]:
            await store.act(connection, pod_id, f"{caller.username} changed it to {made.template}", spec=spec)
    return await _acted(request, caller, pod_id, connection, "RESTART")


@router.get("/{pod_id}/logs", operation_id="get_pod_logs", summary="Log of a pod", responses=MISSING)
async def get_pod_logs(request: Request, caller: Person, pod_id: PodName, connection: Connection) -> Envelope[Logs]:
    """Needs READ; the end of the log of the last run that ended, then that of the present run."""
    pod = await PODS.find(connection, caller, pod_id, "READ")
    reader: Reader = request.app.state.log_reader
    present = await reader.read(pod["tenant"], pod_id, pod["run"]) if pod["log_run"] < pod["run"] else ""
    parts = [pod["log"], present]
    if all(parts):
        parts.insert(1, f"--- run {pod['run']} ---\n")
    result = Logs(logs="".join(parts), action_logs=pod["action_logs"])
    return success(request, "Pod logs retrieved successfully.", result)


@router.get("/{pod_id}/credentials", operation_id="get_pod_credentials", summary="Name and password", responses=MISSING)
async def get_pod_credentials(
    request: Request, caller: Person, pod_id: PodName, connection: Connection
) -> Envelope[Credentials]:
    """Needs USER; made when the pod was created, for what runs in it."""
    pod = await PODS.find(connection, caller, pod_id, "USER")
    result = Credentials(user_username=pod_id, user_password=pod["user_password"])
    return success(request, "Pod credentials retrieved successfully.", result)
