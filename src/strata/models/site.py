"""The site: all layers in one model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import Field, ModelWrapValidatorHandler, StrictBool, model_validator

from strata.models.accelerator_catalogue import CATALOGUE, Accelerator
from strata.models.accelerator_kinds import DescribedAccelerator, kinds_of
from strata.models.access import Access
from strata.models.base import Model
from strata.models.cloud import Cloud
from strata.models.cluster import Cluster
from strata.models.hosts import Hosts
from strata.models.platform import Platform
from strata.models.secret import Secret
from strata.models.state import SharedState
from strata.models.types import DnsLabel, DomainName


class Site(Model):
    """A site, described by inventories/<site>/site.yaml."""

    name: Annotated[DnsLabel, Field(description="Name of the site, of its Pulumi stacks and of its state directory.")]
    domain: Annotated[
        DomainName, Field(description="Domain of the services' names; the registry is registry.<domain>:5000.")
    ]
    cloud: Annotated[
        Cloud | None, Field(description="The OpenStack cloud; without it, the site has only hosts.machines.")
    ] = None
    access: Annotated[
        Access, Field(description="Networks outside the site that may reach it. Default: none, all are blocked.")
    ] = Access()
    hosts: Annotated[Hosts, Field(description="Hosts and their services.")] = Hosts()
    cluster: Annotated[
        Cluster | None, Field(description="The Kubernetes cluster; without it, there is no platform.")
    ] = None
    platform: Annotated[Platform, Field(description="Tenants and services.")] = Platform()
    accelerator_kinds: Annotated[
        tuple[DescribedAccelerator, ...],
        Field(description="Kinds of accelerators that are not built in. Default: the built-in kinds suffice."),
    ] = ()
    secrets: Annotated[
        tuple[Secret, ...],
        Field(description="Secrets that the operator provides; all others are generated at first use."),
    ] = ()
    allow_substitutes: Annotated[
        StrictBool,
        Field(
            description="Whether Strata's substitutes may replace what cannot be downloaded: charts of other projects, "
            "and Pulumi's Kubernetes plugin. A lab always uses them."
        ),
    ] = False
    state: Annotated[
        SharedState | None,
        Field(description="State shared by a team. Default: the state directory of the deployment host."),
    ] = None

    @cached_property
    def accelerators(self) -> Mapping[str, Accelerator]:
        """Every kind that the site can name, the built-in ones first."""
        return CATALOGUE | {kind.name: kind.accelerator for kind in self.accelerator_kinds}

    @property
    def simulates_accelerators(self) -> bool:
        """Whether its accelerators are PCI devices without hardware, which NVIDIA's driver does not see."""
        return self.cloud is not None and self.cloud.deployment == "lab"

    @model_validator(mode="wrap")
    @classmethod
    def _with_own_kinds(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Every section may name the kinds that this one describes."""
        with kinds_of(data):
            return handler(data)
