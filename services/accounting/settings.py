"""What site.yaml sets of the accounting."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from strata.models.base import Model, Unit
from strata.models.types import DnsLabel

Months = Annotated[int, Field(strict=True, ge=12, le=1200)]
"""At least a year, which the views answer about."""
Weight = Annotated[int, Field(strict=True, ge=0, le=1_000_000)]


class ServiceUnits(Model):
    """Service units per hour of a resource: whole numbers; only their ratios matter."""

    core: Annotated[Weight, Field(description="Service units per core and hour.")] = 1
    card: Annotated[Weight, Field(description="Service units per GPU and hour.")] = 2
    memory_gib: Annotated[Weight, Field(description="Service units per GiB of memory and hour.")] = 0


class Measurements(Model):
    """Measurements that users send with tokens of the site's issuer, by tenant."""

    hostname: Annotated[DnsLabel, Field(description="Responds at https://<hostname>.<domain>/measurement.")] = (
        "accounting"
    )


class Retention(Model):
    """How long records are kept, in whole months before the current one."""

    usage: Annotated[Months, Unit("months"), Field(description="Hourly usage of pods, energy of GPUs.")] = 24
    records: Annotated[
        Months, Unit("months"), Field(description="Pods, batch jobs, instances and nodes, counted from their end.")
    ] = 60
    measurements: Annotated[
        Months | None, Unit("months"), Field(description="Measurements of users. Default: forever.")
    ] = None

    @model_validator(mode="after")
    def _usage_is_of_pods(self) -> Self:
        if self.usage > self.records:
            raise ValueError(f"usage ({self.usage} months) cannot be kept longer than records ({self.records} months)")
        return self


class Accounting(Model):
    """Records of the allocation and use of the site's resources, for `strata accounting`."""

    service_units: Annotated[ServiceUnits, Field(description="Service units per hour of each resource.")] = (
        ServiceUnits()
    )
    retention: Annotated[Retention, Field(description="How long records are kept.")] = Retention()
    prometheus: Annotated[
        str | None,
        Field(
            pattern=r"^https?://[a-z0-9.-]+(:[0-9]{1,5})?(/[!-~]*)?$",
            description="URL, without /api, of another Prometheus with the usage of pods. "
            "Default: the site's; without one, usage is not recorded.",
        ),
    ] = None
    measurements: Annotated[
        Measurements | None,
        Field(
            description="Accept users' measurements over REST, and show users their own pods; needs a token issuer. "
            "Default: off."
        ),
    ] = None


SECTION = Accounting
