"""A cloud that others run."""

from __future__ import annotations

from strata.provider.base import Provider
from strata.provider.deployment_host import Problem, clouds_entry_problems


class ExistingCloudProvider(Provider):
    """An OpenStack cloud that is reached through clouds.yaml."""

    @property
    def location(self) -> str:
        return f"clouds.yaml entry {self.cloud_entry}"

    @property
    def cloud_entry(self) -> str:
        cloud = self.site.cloud
        return (cloud.credentials if cloud else None) or self.site.name

    def problems(self) -> list[Problem]:
        return [*super().problems(), *clouds_entry_problems(self.cloud_entry)]
