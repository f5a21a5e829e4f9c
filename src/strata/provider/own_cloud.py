"""Providers that create the cloud itself, and so write its clouds.yaml."""

from __future__ import annotations

from pathlib import Path

from strata.provider.base import Provider


class OwnCloudProvider(Provider):
    """The cloud is the site's: its entry in the site's own clouds.yaml has the site's name."""

    @property
    def clouds_file(self) -> Path:
        return self.paths.clouds_file

    @property
    def cloud_entry(self) -> str:
        return self.site.name
