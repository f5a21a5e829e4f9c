"""Commands in a pod."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.ext.asyncio import AsyncEngine

from pods import store
from pods.access import PODS, Person
from pods.execution import MOST_OF_A_CALLER, Executor, NotRunning, TooMany, Unavailable
from pods.mounting import check_mounts
from pods.routes.pods import IN_USE, MISSING, PodName
from pods.spec import PodSpec
from pods.status import AVAILABLE
from pods.values import Text
from strata_http.audit import Change, describe
from strata_http.envelope import Envelope, success

router = APIRouter(prefix="/pods", tags=["actions"])
Word = Annotated[Text, Field(max_length=16_384)]
Command = Annotated[list[Word], Field(min_length=1, max_length=100)]


class ExecuteCommands(BaseModel):
    """Body of POST."""

    model_config = ConfigDict(extra="forbid")

    commands: Command | Annotated[list[Command], Field(min_length=1, max_length=20)] = Field(
        description='One command, ["ls", "-l"], or several, [["ls", "-l"], ["date"]].'
    )
    total_timeout: int = Field(default=300, ge=1, le=600, description="Seconds for all commands.")
    command_timeout: int = Field(default=60, ge=1, le=600, description="Seconds for each command.")
    fail_on_non_success: bool = Field(default=True, description="Run no command after the first without success.")

    @property
    def each(self) -> list[list[str]]:
        """The commands."""
        several = [command for command in self.commands if isinstance(command, list)]
        return several or [[command for command in self.commands if isinstance(command, str)]]


class ExecutionResult(BaseModel):
    """A command that was run."""

    model_config = ConfigDict(from_attributes=True)

    command: list[str]
    stdout: str
    stderr: str = Field(description="Also why the command did not run to its end.")
    success: bool = Field(description="It ended with status 0.")
    duration_sec: float
    timestamp: str


class ExecutionResults(BaseModel):
    """All that were run."""

    execution_results: list[ExecutionResult]
    total_commands: int
    successful_commands: int


@router.post(
    "/{pod_id}/exec", operation_id="exec_pod_commands", summary="Run commands in a pod", responses=MISSING | IN_USE
)
async def exec_pod_commands(
    request: Request, caller: Person, pod_id: PodName, given: ExecuteCommands
) -> Envelope[ExecutionResults]:
    """Needs ADMIN, the permissions for what the pod mounts, and that it is AVAILABLE.

    The response comes when all have ended, or their time is over.
    """
    engine: AsyncEngine = request.app.state.engine
    # commands may take minutes: no connection of the few is held meanwhile
    async with engine.execution_options(isolation_level="READ COMMITTED").begin() as connection:
        pod = await PODS.find(connection, caller, pod_id, "ADMIN")
        describe(request, Change("pods.exec", f"pods/{pod_id}", pod["tenant"]))
        if pod["status"] != AVAILABLE:
            raise HTTPException(409, f"pod {pod_id} is {pod['status']}: commands run in an AVAILABLE pod only")
        # a command can do with its volumes what the pod can
        mounts = PodSpec.model_validate(pod["run_spec"] or pod["spec"]).volume_mounts
        await check_mounts(connection, caller, pod["tenant"], mounts)
        await store.act(connection, pod_id, f"{caller.username} ran commands: {len(given.each)}")
    executor: Executor = request.app.state.executor
    try:
        executions = await executor.run(
            caller.username,
            pod["tenant"],
            pod_id,
            pod["run"],
            given.each,
            total_seconds=given.total_timeout,
            command_seconds=given.command_timeout,
            stop_at_failure=given.fail_on_non_success,
        )
    except NotRunning:
        raise HTTPException(409, f"pod {pod_id} has no container now; try again when it is AVAILABLE") from None
    except TooMany:
        detail = f"commands of {MOST_OF_A_CALLER} of your requests still run; wait for one of them"
        raise HTTPException(429, detail, headers={"Retry-After": "10"}) from None
    except Unavailable as error:
        raise HTTPException(503, f"{error}; try again", headers={"Retry-After": "10"}) from None
    results = [ExecutionResult.model_validate(execution) for execution in executions]
    result = ExecutionResults(
        execution_results=results,
        total_commands=len(given.each),
        successful_commands=sum(result.success for result in results),
    )
    return success(request, "Commands run.", result)
