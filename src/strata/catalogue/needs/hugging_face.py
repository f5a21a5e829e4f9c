"""The site's mirror of the Hugging Face Hub, for services whose pods load models and datasets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from strata.catalogue.need import Need
from strata.catalogue.service import ServiceContext
from strata.catalogue.site_services import hub_server


@dataclass(frozen=True)
class HubServer:
    """A mirror of the Hub in the cluster.

    Args:
        url: for pods, HF_ENDPOINT.
        public_url: of the same repositories for users, without a slash at its end.
        pods: peer of NetworkPolicies: its pods.
        port: TCP port of them.
    """

    url: str
    public_url: str
    pods: Mapping[str, Any]
    port: int

    @property
    def environment(self) -> dict[str, str]:
        """Variables of pods, which huggingface_hub, transformers and datasets read."""
        # uploads by Xet need its servers; downloads use HTTP anyway
        return {"HF_ENDPOINT": self.url, "HF_HUB_DISABLE_XET": "1"}

    @property
    def egress(self) -> dict[str, Any]:
        """Rule of a NetworkPolicy of pods that use it."""
        return {"to": [dict(self.pods)], "ports": [{"port": self.port, "protocol": "TCP"}]}


@dataclass(frozen=True)
class HuggingFace(Need[HubServer | None]):
    """The mirror, which admits the service's pods; None at sites without one. Their environment and egress are the
    service's to set.

    Args:
        pods: label of the pods, "component=singleuser-server"; empty: pods in tenants' namespaces, which are admitted
            anyway.
        namespace: of the pods; empty: the service's first.
    """

    pods: str = ""
    namespace: str = ""

    def provide(self, context: ServiceContext[Any]) -> HubServer | None:
        """The mirror; None where no service of the site is one."""
        return hub_server(context.site)
