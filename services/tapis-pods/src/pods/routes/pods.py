"""Pods: create, read, change, delete."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Request
from sqlalchemy.ext.asyncio import AsyncConnection

from pods import store, templates
from pods.access import PODS, Person
from pods.allowed_images import allowed_images
from pods.images import Image
from pods.mounting import check_mounts
from pods.routes.shapes import PodResult, pod_result
from pods.settings import Settings, Tenant
from pods.spec import DEFAULT, NewPod, PodSpec, UpdatePod, check_names, stored
from pods.values import Text
from strata_http.audit import Change, describe
from strata_http.database import Connection, Transaction
from strata_http.envelope import ENVELOPE, Envelope, success
from strata_http.tokens import Caller

router = APIRouter(prefix="/pods", tags=["pods"])
MISSING = ENVELOPE.described(
    {403: "Too low a permission.", 404: "It does not exist, or you have no permission for it."}
)
IN_USE = ENVELOPE.described({409: "Not possible in the pod's present state, or the name is in use."})
NOT_MOUNTED = ENVELOPE.described({403: "Too low a permission for a volume or snapshot."})
PodName = Annotated[Text, Path(min_length=1, max_length=64, description="Name of the pod.")]


def settings_of(request: Request) -> Settings:
    """Of the running service."""
    settings: Settings = request.app.state.settings
    return settings


def choose_tenant(settings: Settings, caller: Caller, queue: str) -> Tenant:
    """Whose a new object is: the only one of the caller's, or the one that is named.

    Raises:
        HTTPException: 400; names the choices.
    """
    own = [name for name in caller.tenants if name in settings.tenants]
    choices = ", ".join(own) or "none"
    if queue != DEFAULT:
        if queue not in own:
            raise HTTPException(400, f"compute_queue: {queue} is none of your tenants: {choices}")
        return settings.tenants[queue]
    if len(own) != 1:
        raise HTTPException(400, f"compute_queue: name one of your tenants: {choices}")
    return settings.tenants[own[0]]


async def check_tenant(connection: AsyncConnection, tenant: Tenant, spec: PodSpec) -> None:
    """Refuses what the tenant cannot run.

    Raises:
        HTTPException: 400; names the field, and what is allowed.
    """
    try:
        image = Image.parse(spec.image)
    except ValueError as error:
        raise HTTPException(400, f"image: {spec.image[:200]} {error}") from None
    allowed = await allowed_images(connection, tenant)
    if not allowed.allows(image):
        raise HTTPException(400, f"image: {image.repository} is not on the list of tenant {tenant.name}: {allowed}")
    resources = spec.resources
    most = tenant.gpus.maximum if tenant.gpus else 0
    for field, value, limit in (
        ("gpus", resources.gpus, most),
        ("cpu_request", resources.cpu_request, tenant.millicpu),
        ("mem_limit", resources.mem_limit, tenant.mebibytes),
    ):
        if value > limit:
            raise HTTPException(
                400, f"resources.{field}: {value} is more than the quota of tenant {tenant.name} allows: {limit}"
            )
    if resources.gpu_minimum_utilization and not resources.gpus:
        raise HTTPException(400, "resources.gpu_minimum_utilization: the pod has no GPU; set resources.gpus too")


@router.get("", operation_id="list_pods", summary="Pods that you have a permission for")
async def list_pods(request: Request, caller: Person, connection: Connection) -> Envelope[list[PodResult]]:
    """By name; those of tenants that you are no longer a member of are left out."""
    domain = settings_of(request).domain
    results = [pod_result(row, domain) for row in (await connection.execute(PODS.visible(caller))).mappings()]
    return success(request, "Pods retrieved successfully.", results, count=len(results))


@router.post("", operation_id="create_pod", summary="Create a pod", responses=IN_USE | NOT_MOUNTED)
async def create_pod(request: Request, caller: Person, given: NewPod, connection: Transaction) -> Envelope[PodResult]:
    """It starts unless status_requested is OFF."""
    settings = settings_of(request)
    tenant = choose_tenant(settings, caller, given.compute_queue)
    describe(request, Change("pods.create", f"pods/{given.pod_id}", tenant.name))
    overrides = stored(given)
    given = await templates.with_template(connection, caller, settings, given)
    spec = PodSpec.model_validate(stored(given))
    await check_tenant(connection, tenant, spec)
    await check_mounts(connection, caller, tenant.name, spec.volume_mounts)
    requested = "OFF" if given.status_requested == "OFF" else "ON"
    dumped = spec.model_dump(mode="json")
    if not await store.create(connection, given.pod_id, tenant.name, caller.username, dumped, overrides, requested):
        raise HTTPException(409, f"pod_id: {given.pod_id} is in use, or is still being deleted; choose another name")
    row = await PODS.find(connection, caller, given.pod_id, "ADMIN")
    return success(request, "Pod created successfully.", pod_result(row, settings.domain))


@router.get("/{pod_id}", operation_id="get_pod", summary="A pod", responses=MISSING)
async def get_pod(request: Request, caller: Person, pod_id: PodName, connection: Connection) -> Envelope[PodResult]:
    """Needs READ."""
    row = await PODS.find(connection, caller, pod_id, "READ")
    return success(request, "Pod retrieved successfully.", pod_result(row, settings_of(request).domain))


@router.put("/{pod_id}", operation_id="update_pod", summary="Change a pod", responses=MISSING | IN_USE)
async def update_pod(
    request: Request, caller: Person, pod_id: PodName, given: UpdatePod, connection: Transaction
) -> Envelope[PodResult]:
    """Needs USER, with status_requested ADMIN; the next start or restart uses the new values."""
    settings = settings_of(request)
    row = await PODS.find(connection, caller, pod_id, "USER", change=True)
    describe(request, Change("pods.update", f"pods/{pod_id}", row["tenant"]))
    # with the fields that later releases have added
    before = PodSpec.model_validate(row["spec"]).model_dump(mode="json")
    try:
        check_names(pod_id, given.networking if "networking" in given.model_fields_set else {})
    except ValueError as error:
        raise HTTPException(400, str(error)) from None
    spec = PodSpec.model_validate(before | stored(given))
    after = spec.model_dump(mode="json")
    if after != before:
        changed = sorted(key for key in after if after[key] != before.get(key))
        await check_tenant(connection, known_tenant(settings, row["tenant"]), spec)
        await check_mounts(connection, caller, row["tenant"], spec.volume_mounts)
        begin = row["start_instance_ts"]
        ending = begin and spec.seconds is not None and begin + timedelta(seconds=spec.seconds)
        line = f"{caller.username} changed {', '.join(changed)}"
        overrides = row["overrides"] | stored(given)
        await store.act(connection, pod_id, line, spec=after, overrides=overrides, time_to_stop_ts=ending or None)
    requested = given.status_requested if "status_requested" in given.model_fields_set else None
    if requested is not None and requested != row["status_requested"]:
        await set_status(request, connection, caller, pod_id, requested)
    elif after == before:
        return success(request, "Pod unchanged.", pod_result(row, settings.domain))
    row = await PODS.find(connection, caller, pod_id, "READ")
    return success(request, "Pod updated successfully.", pod_result(row, settings.domain))


@router.delete("/{pod_id}", operation_id="delete_pod", summary="Delete a pod", responses=MISSING)
async def delete_pod(request: Request, caller: Person, pod_id: PodName, connection: Transaction) -> Envelope[str]:
    """Needs ADMIN; the name is free as soon as the pod has ended."""
    row = await PODS.find(connection, caller, pod_id, "ADMIN", change=True)
    describe(request, Change("pods.delete", f"pods/{pod_id}", row["tenant"]))
    await store.act(connection, pod_id, f"deleted by {caller.username}", deleted=True)
    return success(request, "Pod deleted successfully.", "")


def known_tenant(settings: Settings, name: str) -> Tenant:
    """Of a pod.

    Raises:
        HTTPException: 409 where the site has it no longer.
    """
    if name not in settings.tenants:
        raise HTTPException(409, f"tenant {name} is no longer a tenant of the site: its pods can only be deleted")
    return settings.tenants[name]


async def set_status(request: Request, connection: Any, caller: Caller, pod_id: str, requested: str) -> None:
    """Start (ON), stop (OFF) or restart of a pod; nothing happens to one that is stopped and shall be.

    Raises:
        HTTPException: 404, 403 without ADMIN, 409 for a start of a pod that is not stopped, 400 for a start with what
            the tenant may not run now.
    """
    settings = settings_of(request)
    pod, name = await PODS.find(connection, caller, pod_id, "ADMIN", change=True), caller.username
    word = {"ON": "start", "OFF": "stop", "RESTART": "restart"}[requested]
    describe(request, Change(f"pods.{word}", f"pods/{pod_id}", pod["tenant"]))
    if requested == "OFF":
        if pod["status_requested"] != "OFF":
            await store.act(connection, pod_id, f"stop requested by {name}", status_requested="OFF")
        return
    tenant, spec = known_tenant(settings, pod["tenant"]), PodSpec.model_validate(pod["spec"])
    await check_tenant(connection, tenant, spec)
    await check_mounts(connection, caller, tenant.name, spec.volume_mounts)
    if requested == "RESTART":
        await store.act(connection, pod_id, f"restart requested by {name}", status_requested="RESTART")
        return
    if pod["status"] != "STOPPED" or pod["status_requested"] != "OFF":
        raise HTTPException(409, f"pod {pod_id} is {pod['status']}: only a STOPPED pod can be started; restart it")
    await store.start(connection, pod, f"start requested by {name}")
