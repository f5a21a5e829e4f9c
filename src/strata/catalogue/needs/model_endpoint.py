"""Where users ask models that the site serves, for services that tell them of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strata.catalogue.needs.base import Need

if TYPE_CHECKING:
    from strata.catalogue.service import ServiceContext


@dataclass(frozen=True)
class ModelEndpoint:
    """An API by which users ask models.

    Args:
        url: without a slash at its end; the id of a model follows.
        openai_url: of the same models in OpenAI's form, without a slash at its end.
        models: by id, the tenants whose members may ask it.
    """

    url: str
    openai_url: str
    models: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class ModelEndpoints(Need[ModelEndpoint | None]):
    """The endpoint of the site's models; None at sites without one."""

    def provide(self, context: ServiceContext[Any]) -> ModelEndpoint | None:
        """As the service that is one describes itself."""
        from strata.catalogue.site import model_endpoint

        return model_endpoint(context.site)
