"""What site.yaml sets of Dask clusters."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from strata.models.base import Model, Unit
from strata.models.types import Count, Size


class DaskGateway(Model):
    """Dask clusters for the users of JupyterHub, in their tenants' namespaces; they end with the user's server."""

    clusters_per_user: Annotated[
        Count, Unit("clusters"), Field(description="Maximum number of clusters of a user.")
    ] = 1
    maximum_workers: Annotated[
        Count,
        Unit("workers"),
        Field(description="Maximum number of workers of a cluster; the tenant's quota also applies."),
    ] = 10
    worker_cpu: Annotated[
        Count, Unit("CPUs"), Field(description="Maximum number of CPUs that a user can choose for a worker.")
    ] = 4
    worker_memory: Annotated[Size, Field(description="Maximum memory that a user can choose for a worker.")] = (
        Size.parse("8 GiB")
    )
    millicpus_per_cpu: Annotated[
        Annotated[int, Field(strict=True, ge=1, le=1000)],
        Unit("thousandths of a CPU"),
        Field(description="CPU time reserved on the node for each CPU of a worker, and for the scheduler."),
    ] = 1000
    scheduler_memory: Annotated[Size, Field(description="Memory of a cluster's scheduler.")] = Size.parse("1 GiB")
    scratch: Annotated[
        Size, Field(description="Disk space on the node for a worker's data that does not fit into its memory.")
    ] = Size.parse("10 GiB")
    idle_seconds: Annotated[
        Count, Unit("seconds"), Field(description="Time after which a cluster without tasks ends.")
    ] = 1800
    server_check_seconds: Annotated[
        Count,
        Unit("seconds"),
        Field(description="Time between checks that the servers of users with clusters are running."),
    ] = 10


SECTION = DaskGateway
