"""What every step knows about the site it works on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from strata.layers import HOSTS, Playbook
from strata.models.site import Site
from strata.provider import Provider, provider_of
from strata.site.installer_facts import installer_of
from strata.site.outputs import CloudOutputs, ImageOutputs
from strata.site.paths import SitePaths
from strata.site.secrets import SecretStore
from strata.site_file.loader import load_site


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
            SiteError: with every error in it.
        """
        site = load_site(site_file)
        return cls(site, site_file.absolute(), SitePaths(site.name))

    @cached_property
    def secrets(self) -> SecretStore:
        """Opened late: it makes the state directory."""
        return SecretStore.open(self.site.name, self.site.secrets)

    @cached_property
    def provider(self) -> Provider:
        """The facts about what carries its hosts."""
        return provider_of(self.site)

    @property
    def playbooks(self) -> dict[str, Playbook]:
        """The playbooks that `up` runs, by name and in this order."""
        own = (HOSTS, *installer_of(self.site).playbooks) if self.site.cluster is not None else (HOSTS,)
        return {playbook.name: playbook for playbook in (*self.provider.playbooks, *own)}

    @property
    def cloud_outputs(self) -> CloudOutputs | None:
        """What the cloud layer made, None before it ran."""
        return CloudOutputs.load(self.paths)

    @property
    def image_outputs(self) -> ImageOutputs | None:
        """The pushed images, None before that."""
        return ImageOutputs.load(self.paths)
