"""What every step knows about the site it works on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from strata.models import Site, load_site
from strata.site.outputs import CloudOutputs, ImageOutputs
from strata.site.paths import SitePaths
from strata.site.secrets import SecretStore


@dataclass(frozen=True)
class SiteContext:
    """One site and where its state is."""

    site: Site
    site_file: Path
    paths: SitePaths

    @classmethod
    def load(cls, site_file: Path) -> SiteContext:
        """Reads the site file.

        Raises:
            SiteError: with every mistake in it.
        """
        site = load_site(site_file)
        return cls(site, site_file.absolute(), SitePaths(site.name))

    @cached_property
    def secrets(self) -> SecretStore:
        """Opened late: it makes the state directory."""
        return SecretStore.open(self.site.name, self.site.secrets)

    @property
    def cloud_outputs(self) -> CloudOutputs | None:
        """What the cloud layer made, None before it ran."""
        return CloudOutputs.load(self.paths)

    @property
    def image_outputs(self) -> ImageOutputs | None:
        """The pushed images, None before that."""
        return ImageOutputs.load(self.paths)
