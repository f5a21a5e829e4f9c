"""Providers that have a cloud."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from strata.provider.base import Provider


class CloudProvider(Provider):
    """The cloud is the site's: Strata writes its clouds.yaml, where the cloud's entry has the site's name."""

    contents: ClassVar[str] = "all instances, networks and their data"
    stop_with: ClassVar[str] = "stop instances with `openstack server stop`"

    @property
    def clouds_file(self) -> Path | None:
        return self.paths.clouds_file

    @property
    def cloud_entry(self) -> str:
        return self.site.name
