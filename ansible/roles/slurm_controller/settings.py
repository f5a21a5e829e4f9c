"""The section `hosts.slurm` of site.yaml: the batch system of hosts beside the cluster."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from strata.models.accelerator_kinds import AcceleratorKind
from strata.models.base import Model, Unit
from strata.models.types import Count, DnsLabel


class SlurmPartition(Model):
    """A partition: a queue and its hosts."""

    name: Annotated[DnsLabel, Field(description="Name for sbatch --partition.")]
    hosts: Annotated[
        tuple[DnsLabel, ...], Field(description="Hosts with the role slurm_node. Default: all of them.")
    ] = ()
    accelerator: Annotated[
        AcceleratorKind | None, Field(description="Instead of `hosts`: all Slurm hosts with this accelerator.")
    ] = None
    default_minutes: Annotated[
        Count | None, Unit("minutes"), Field(description="Time limit of a job without --time. Default: the maximum.")
    ] = None
    maximum_minutes: Annotated[
        Count | None, Unit("minutes"), Field(description="Longest time limit of a job. Default: none.")
    ] = None
    maximum_hosts: Annotated[
        Count | None, Unit("hosts"), Field(description="Maximum number of hosts of a job. Default: no limit.")
    ] = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.name == "default":
            raise PydanticCustomError(
                "partition_name", "means all partitions in slurm.conf", {"key": "name", "fix": "for instance batch"}
            )
        if self.hosts and self.accelerator is not None:
            raise PydanticCustomError(
                "partition_hosts",
                "selects hosts by name already",
                {"key": "accelerator", "fix": "keep one of hosts and accelerator"},
            )
        if self.default_minutes and self.maximum_minutes and self.default_minutes > self.maximum_minutes:
            raise PydanticCustomError(
                "partition_minutes",
                "is more than maximum_minutes",
                {"key": "default_minutes", "fix": f"at most {self.maximum_minutes}"},
            )
        return self


class Slurm(Model):
    """Batch system of the hosts with the role slurm_node; its cluster has the site's name."""

    partitions: Annotated[
        tuple[SlurmPartition, ...],
        Field(min_length=1, description="Partitions; the first is the default."),
    ]


SECTION = Slurm
