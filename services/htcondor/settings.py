"""What site.yaml sets of HTCondor."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from strata.models.accelerator_kinds import AcceleratorKind
from strata.models.base import Model, Unit
from strata.models.types import Count, DnsLabel, Size


class TenantShare(Model):
    """Limits of a tenant's running jobs, and its share of a busy pool."""

    name: Annotated[DnsLabel, Field(description="Name of the tenant.")]
    cpus: Annotated[
        Count | None,
        Unit("CPUs"),
        Field(description="CPUs of all its jobs, at most those of the tenant's quota, the default."),
    ] = None
    memory: Annotated[
        Size | None, Field(description="Memory of all its jobs, at most that of the tenant's quota, the default.")
    ] = None
    cards: Annotated[
        Annotated[int, Field(strict=True, ge=0, le=1_000_000)] | None,
        Unit("cards"),
        Field(description="Cards of all its jobs, at most those of the tenant's quota, the default."),
    ] = None
    priority_factor: Annotated[
        Count,
        Field(description="A tenant with 2 gets half the share of a tenant with 1, if their past usage is equal."),
    ] = 1


class JobImage(Model):
    """An image for jobs, of any Linux distribution, with a shell and cp; HTCondor need not be installed in it."""

    name: Annotated[DnsLabel, Field(description="Name that jobs set as StrataImage.")]
    image: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9][a-z0-9.:/_-]*@sha256:[0-9a-f]{64}$",
            max_length=500,
            description="Registry, repository and digest; nodes must be able to pull it.",
        ),
    ]


class HTCondor(Model):
    """An HTCondor pool: batch jobs in pods that exist only while there are jobs, and give way to notebooks."""

    maximum_execution_points: Annotated[
        Count, Unit("pods"), Field(description="Maximum number of execution points, and thus of running jobs.")
    ] = 100
    accelerator: Annotated[
        AcceleratorKind | None,
        Field(description="Kind of accelerator for jobs with request_gpus. Default: such jobs are refused."),
    ] = None
    tenants: Annotated[
        tuple[TenantShare, ...],
        Field(description="Shares of tenants, and limits of their jobs below their quotas."),
    ] = ()
    queues: Annotated[
        tuple[DnsLabel, ...],
        Field(
            description="Queues of each tenant, the most urgent first: a job takes over the execution point of a "
            "running job of a later queue, which becomes idle. Jobs set their queue as StrataQueue. Default: no queues."
        ),
    ] = ()
    images: Annotated[
        tuple[JobImage, ...],
        Field(description="Images for jobs, besides the notebooks' image and the pool's own, `htcondor`."),
    ] = ()
    default_image: Annotated[
        DnsLabel | None,
        Field(description="Image of jobs that set none. Default: the notebooks' image; without notebooks, `htcondor`."),
    ] = None
    shared_export: Annotated[
        DnsLabel | None,
        Field(
            description="NFS export with `tenants: true`; jobs of a tenant's members have the tenant's folder in it at "
            "/shared/<tenant>. Default: no shared folders."
        ),
    ] = None
    half_life_seconds: Annotated[
        Count, Unit("seconds"), Field(description="Time after which past usage counts half in the fair share.")
    ] = 86400
    idle_seconds: Annotated[
        Count, Unit("seconds"), Field(description="Time after which an execution point without a job ends.")
    ] = 60
    lifetime_seconds: Annotated[
        Count,
        Unit("seconds"),
        Field(description="Time after which an execution point accepts no more jobs, to give other tenants a turn."),
    ] = 3600
    vacate_seconds: Annotated[
        Count,
        Unit("seconds"),
        Field(description="Time between SIGTERM and SIGKILL of an evicted job; the evicting pod waits for it."),
    ] = 2
    millicpus_per_cpu: Annotated[
        Annotated[int, Field(strict=True, ge=1, le=1000)],
        Unit("thousandths of a CPU"),
        Field(description="CPU time reserved on the node for each CPU of a job."),
    ] = 1000
    scratch: Annotated[Size, Field(description="Size of a job's working directory on the node.")] = Size.parse("10 GiB")
    spool: Annotated[
        Size, Field(description="Capacity of the volume with the job queue, files of waiting jobs and the history.")
    ] = Size.parse("10 GiB")
    token_seconds: Annotated[
        Count, Unit("seconds"), Field(description="Validity of a token that a service requests for a user.")
    ] = 86400


SECTION = HTCondor
