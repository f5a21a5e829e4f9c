"""A cloud that others run."""

from __future__ import annotations

from strata.models.compute import Image
from strata.provider.cloud_provider import CloudProvider
from strata.provider.deployment_host import Problem, clouds_entry_problems
from strata.site.outputs import ExistingObjects


class ExistingCloudProvider(CloudProvider):
    """An OpenStack cloud that is reached through clouds.yaml."""

    host_keys_on_console = True
    can_adopt = True

    @property
    def location(self) -> str:
        return f"clouds.yaml entry {self.cloud_entry}"

    @property
    def clouds_file(self) -> None:
        """Searched for as OpenStack's tools do."""

    @property
    def cloud_entry(self) -> str:
        cloud = self.site.cloud
        return (cloud.credentials if cloud else None) or self.site.name

    def image_id(self, image: Image) -> str | None:
        if image.id is not None:
            return str(image.id)
        existing = ExistingObjects.load(self.paths)
        return existing.images.get(image.name) if existing else None

    def can_compare(self) -> bool:
        return not clouds_entry_problems(self.cloud_entry)

    def problems(self) -> list[Problem]:
        return [*super().problems(), *clouds_entry_problems(self.cloud_entry)]
