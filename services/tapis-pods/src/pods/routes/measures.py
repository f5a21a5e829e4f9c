"""What a pod uses."""

from __future__ import annotations

from datetime import UTC, datetime

import structlog
from fastapi import APIRouter, HTTPException, Request
from sqlalchemy.ext.asyncio import AsyncEngine

from pods.access import PODS, Person
from pods.measures import LONGEST_SECONDS, MeasureReader, Measures
from pods.routes.pods import MISSING, PodName
from strata_http.envelope import ENVELOPE, Envelope, success
from strata_http.prometheus import NoAnswer

router = APIRouter(prefix="/pods", tags=["pods"])
NOT_MEASURED = ENVELOPE.described({503: "The site has no Prometheus, or it does not respond; or as for other routes."})

log = structlog.get_logger(__name__)


@router.get(
    "/{pod_id}/measures",
    operation_id="get_pod_measures",
    summary="CPU, memory and GPUs that a pod uses",
    responses=MISSING | NOT_MEASURED,
)
async def get_pod_measures(request: Request, caller: Person, pod_id: PodName) -> Envelope[Measures]:
    """Needs READ; of the present run, or the last one. Values appear within a minute or two."""
    engine: AsyncEngine = request.app.state.engine
    # Prometheus may take its time: no connection of the few is held meanwhile
    async with engine.connect() as connection:
        pod = await PODS.find(connection, caller, pod_id, "READ")
    reader: MeasureReader = request.app.state.measure_reader
    if not reader.url:
        raise HTTPException(503, "measures: the site has no Prometheus, so pods are not measured")
    begun: datetime | None = pod["start_instance_ts"]
    if begun is None:
        return success(request, "The pod has not run yet.", Measures(seconds=0))
    seconds = max(1, min(LONGEST_SECONDS, int((datetime.now(UTC) - begun).total_seconds())))
    try:
        result = await reader.read(pod["tenant"], pod_id, seconds)
    except NoAnswer as error:
        log.warning("pods are not measured", reason=str(error))
        detail = "measures: the site's Prometheus does not respond; try again"
        raise HTTPException(503, detail, headers={"Retry-After": "10"}) from None
    return success(request, "Pod measures retrieved successfully.", result)
