"""A cloud that Kolla-Ansible deploys, as the provider of a site's hosts."""

from __future__ import annotations

import shutil
from ipaddress import IPv4Address
from typing import ClassVar

from strata.installers.kolla.downloads import upload
from strata.installers.kolla.files import section
from strata.models.compute import Image
from strata.provider.base import ImageUpload, Subnet
from strata.provider.cloud_provider import CloudProvider
from strata.provider.deployment_host import Problem, uv_problems

PHYSICAL_NETWORK = "physnet1"
"""Kolla-Ansible's name of the bridge with interfaces.external."""


class KollaProvider(CloudProvider):
    """A cloud on the controllers and hypervisors of site.yaml."""

    # the text of Kolla-Ansible's passwords.yml, whose passwords change by its own procedures
    lasting_secrets: ClassVar[frozenset[str]] = frozenset({"kolla_passwords"})

    @property
    def location(self) -> str:
        cloud, kolla = section(self.site)
        hosts = {c.name for c in kolla.controllers} | {h.name for h in cloud.hypervisors}
        return f"on {len(hosts)} hosts, APIs at {kolla.external.name}"

    def problems(self) -> list[Problem]:
        result = super().problems()
        result += [problem for problem in uv_problems() if problem not in result]
        if shutil.which("git") is None:
            message = "git is not installed; it fetches the collection of Kolla-Ansible's bootstrap-servers"
            result.append(Problem(message, "apt-get install git"))
        return result

    def external_subnet(self) -> Subnet | None:
        network = section(self.site)[1].external_network
        if network is None:
            return None
        pool = network.addresses
        first, last, gateway = (IPv4Address(str(a)) for a in (pool.start, pool.end, network.gateway))
        return Subnet(network.cidr, first, last, gateway, PHYSICAL_NETWORK, network.vlan)

    def image_upload(self, image: Image) -> ImageUpload | None:
        return upload(image)

    def endpoints(self) -> dict[str, str]:
        return {"OpenStack": f"https://{section(self.site)[1].external.name}:5000/v3"}
