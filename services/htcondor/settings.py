"""What site.yaml sets of HTCondor."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from strata.models.accelerators import AcceleratorKind
from strata.models.base import Model, Unit
from strata.models.types import Count, DnsLabel, Size


class TenantShare(Model):
    """What a tenant's jobs may use at one time, and its share of a busy pool."""

    layer: ClassVar[str] = "platform"
    name: Annotated[DnsLabel, Field(description="Name of the tenant.")]
    cpus: Annotated[
        Count | None, Unit("CPUs"), Field(description="CPUs of all its jobs. Default: those of the tenant's quota.")
    ] = None
    memory: Annotated[
        Size | None, Field(description="Memory of all its jobs. Default: that of the tenant's quota.")
    ] = None
    cards: Annotated[
        Annotated[int, Field(strict=True, ge=0, le=1_000_000)] | None,
        Unit("cards"),
        Field(description="Cards of all its jobs. Default: those of the tenant's quota."),
    ] = None
    priority_factor: Annotated[
        Count, Field(description="2 is half the share of a tenant with 1, at the same usage in the past.")
    ] = 1


class HTCondor(Model):
    """An HTCondor pool: batch jobs in pods that exist only while there are jobs, and give way to notebooks."""

    layer: ClassVar[str] = "platform"
    maximum_execution_points: Annotated[
        Count, Unit("pods"), Field(description="Execution points, that is running jobs, at one time.")
    ] = 100
    accelerator: Annotated[
        AcceleratorKind | None,
        Field(description="Kind of the cards that jobs with request_gpus get. Default: such jobs are refused."),
    ] = None
    tenants: Annotated[
        tuple[TenantShare, ...],
        Field(description="Limits and shares of tenants, where the tenant's quota is not right."),
    ] = ()
    queues: Annotated[
        tuple[DnsLabel, ...],
        Field(
            description="Queues of each tenant, the most urgent first: a job takes the execution point of a running "
            "job of a later queue, which is idle again. Jobs name theirs as StrataQueue. Default: no queues."
        ),
    ] = ()
    half_life_seconds: Annotated[
        Count, Unit("seconds"), Field(description="After this time, past usage counts half in the fair share.")
    ] = 86400
    idle_seconds: Annotated[
        Count, Unit("seconds"), Field(description="An execution point ends after this time without a job.")
    ] = 60
    lifetime_seconds: Annotated[
        Count,
        Unit("seconds"),
        Field(
            description="After this time, an execution point accepts no more jobs, so that other tenants' turns come."
        ),
    ] = 3600
    vacate_seconds: Annotated[
        Count,
        Unit("seconds"),
        Field(description="Time between SIGTERM and SIGKILL of an evicted job; whoever needs the node waits for it."),
    ] = 2
    millicpus_per_cpu: Annotated[
        Annotated[int, Field(strict=True, ge=1, le=1000)],
        Unit("thousandths of a CPU"),
        Field(description="CPU time that is reserved on the node for each CPU of a job."),
    ] = 1000
    scratch: Annotated[Size, Field(description="Size of a job's working directory, on the node.")] = Size.parse(
        "10 GiB"
    )
    spool: Annotated[
        Size, Field(description="Capacity of the volume with the job queue, files of waiting jobs and the history.")
    ] = Size.parse("10 GiB")
    token_seconds: Annotated[
        Count, Unit("seconds"), Field(description="How long a token is valid that a service requests for a user.")
    ] = 86400
