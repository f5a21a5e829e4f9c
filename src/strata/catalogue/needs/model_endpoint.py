"""Where users ask models that the site serves, for services that tell users about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from strata.catalogue.need import Need
from strata.catalogue.service import ServiceContext
from strata.catalogue.site_services import model_endpoint


@dataclass(frozen=True)
class ModelEndpoint:
    """An API by which users ask models.

    Args:
        url: without a slash at its end; the id of a model follows.
        openai_url: of the same models in OpenAI's form, without a slash at its end.
        models: by id, the tenants whose members may ask it.
        internal_url: of the server for pods of services that need `ModelEndpoints`, without a path.
        pods: peer of NetworkPolicies: its pods.
        port: TCP port of them.
    """

    url: str
    openai_url: str
    models: Mapping[str, tuple[str, ...]]
    internal_url: str
    pods: Mapping[str, Any]
    port: int

    @property
    def egress(self) -> dict[str, Any]:
        """Rule of a NetworkPolicy of pods that ask it."""
        return {"to": [dict(self.pods)], "ports": [{"port": self.port, "protocol": "TCP"}]}


@dataclass(frozen=True)
class ModelEndpoints(Need[ModelEndpoint | None]):
    """The endpoint of the site's models; None at sites without one. It admits the service's pods, which have the
    service's name in `app.kubernetes.io/name`; they ask in the name of users, with these users' tokens.
    """

    def provide(self, context: ServiceContext[Any]) -> ModelEndpoint | None:
        """As the service that is one describes itself."""
        return model_endpoint(context.site)
