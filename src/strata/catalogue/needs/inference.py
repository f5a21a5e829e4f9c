"""The site's inference server, for services that tell users of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strata.catalogue.needs.base import Need

if TYPE_CHECKING:
    from strata.catalogue.service import ServiceContext


@dataclass(frozen=True)
class InferenceServer:
    """An API by which users ask models.

    Args:
        url: of the inference server of Tapis' ML Hub, without a slash at its end; the id of a model follows.
        models: by id, the tenants whose members may ask it.
    """

    url: str
    models: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Inference(Need[InferenceServer | None]):
    """The inference server; None at sites without one."""

    def provide(self, context: ServiceContext[Any]) -> InferenceServer | None:
        """As the service that is one describes itself."""
        from strata.catalogue.site import inference_server

        return inference_server(context.site)
