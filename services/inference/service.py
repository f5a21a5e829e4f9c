"""Models behind tokens, for the clients of OpenAI, Hugging Face and Tapis."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from strata.catalogue.need import pods_peer
from strata.catalogue.needs import (
    Accelerators,
    ApiPath,
    Audience,
    Hostname,
    HuggingFace,
    Metrics,
    Need,
    Priority,
)
from strata.catalogue.needs.hostname import INGRESS_CONTROLLER
from strata.catalogue.needs.model_endpoint import ModelEndpoint
from strata.catalogue.service import SYSTEM_NAMESPACE, Service, ServiceContext, Values
from strata.catalogue.site_needs import endpoint_clients
from strata.catalogue.site_services import hub_server
from strata.models.finding import Finding, duplicates
from strata.models.key_path import KeyPath
from strata.models.site import Site
from strata_services.inference.settings import Inference, ServedModel

NAME = Path(__file__).parent.name
KEY: KeyPath = ("platform", "services", NAME)
TENANTS_KEY: KeyPath = ("platform", "tenants")
MODEL_PODS = f"{NAME}-model"
"""`app.kubernetes.io/name` of pods with a model."""
PORT = 8080
"""Of the API's pods and its Service."""
API = ApiPath(
    health_path="/v3/ml-hub/inference/openapi.json",
    paths=("/v3/ml-hub/inference",),
)
AUDIENCE = Audience("inference", path=API.path)
METRICS = Metrics(9464)
HUB = HuggingFace(f"app.kubernetes.io/name={MODEL_PODS}", SYSTEM_NAMESPACE)
GPU = Accelerators()
PRIORITY = Priority("platform")
MODEL_PRIORITY = Priority("interactive")


def _hostname(settings: Inference) -> Hostname:
    return Hostname(
        settings.hostname,
        "/healthz",
        title="Models",
        summary="Ask language models of the site, by the clients of OpenAI and Hugging Face.",
        start_path="/v3/ml-hub/inference/openapi.json",
        command="OPENAI_BASE_URL={url}/v1",
    )


def needs(settings: Inference) -> tuple[Need[Any], ...]:
    """Its name and its path of the API, tokens, the site's hub, metrics, priorities; GPUs where a model has one."""
    gpu = (GPU,) if any(model.accelerator == "gpu" for model in settings.models) else ()
    return (_hostname(settings), API, AUDIENCE, METRICS, HUB, PRIORITY, MODEL_PRIORITY, *gpu)


def check(settings: Inference, site: Site, _: Path) -> Iterator[Finding]:
    """The site has a hub, models differ, and their tenants exist."""
    if hub_server(site) is None:
        hub: KeyPath = ("platform", "services", "hub_mirror")
        yield Finding(KEY, "needs the site's hub, which models load from", "add platform.services.hub_mirror", (hub,))
    names = [tenant.name for tenant in site.platform.tenants]
    yield from duplicates((model.id, (*KEY, "models", index, "id")) for index, model in enumerate(settings.models))
    for index, model in enumerate(settings.models):
        at: KeyPath = (*KEY, "models", index, "tenants")
        yield from duplicates((tenant, (*at, number)) for number, tenant in enumerate(model.tenants))
        for number, tenant in enumerate(model.tenants):
            if tenant not in names:
                fix = f"one of {', '.join(names)}" if names else "add it to platform.tenants"
                yield Finding((*at, number), "is not in platform.tenants", fix, (TENANTS_KEY,))


def _tenants(site: Site, model: ServedModel) -> tuple[str, ...]:
    return model.tenants or tuple(tenant.name for tenant in site.platform.tenants)


def server(site: Site) -> ModelEndpoint:
    """The site's inference server, for services that point users to it."""
    settings = SERVICE.of(site)
    assert settings is not None, "only services of the site are asked"
    models = {model.id: _tenants(site, model) for model in settings.models}
    openai = f"https://{_hostname(settings).host(site)}/v1"
    return ModelEndpoint(
        url=f"https://{API.host(site)}{API.path}",
        openai_url=openai,
        models=models,
        internal_url=f"http://{NAME}.{SYSTEM_NAMESPACE}.svc:{PORT}",
        pods=pods_peer(SYSTEM_NAMESPACE, {"app.kubernetes.io/name": NAME}),
        port=PORT,
    )


def _object_name(model: ServedModel) -> str:
    """Of a model's Kubernetes objects: readable, and another one for each id."""
    readable = re.sub("[^a-z0-9]+", "-", model.id.lower()).strip("-")[:24].strip("-")
    return f"{MODEL_PODS}-{readable}-{hashlib.sha256(model.id.encode()).hexdigest()[:8]}"


def _model(context: ServiceContext[Inference], model: ServedModel) -> Values:
    values: Values = {
        "id": model.id,
        "name": _object_name(model),
        "revision": model.revision,
        "accelerator": model.accelerator,
        "cpu": model.cpu,
        "memory": f"{model.memory.mebibytes}Mi",
        "tenants": list(_tenants(context.site, model)),
        "idleSeconds": 60 * model.idle,
    }
    if model.accelerator == "gpu":
        gpu = context.provide(GPU)
        values["gpu"] = {
            "resource": gpu.resource,
            "nodeSelector": dict(gpu.node_selector),
            "tolerations": [dict(toleration) for toleration in gpu.tolerations],
        }
    return values


def values(context: ServiceContext[Inference]) -> Values:
    """Values of helm/inference.

    Raises:
        LookupError: the site has no hub; validation refuses that.
        UserError: the external issuer's CA cannot be read.
    """
    issuer, metrics, hub = context.provide(AUDIENCE), context.provide(METRICS), context.provide(HUB)
    if hub is None:
        raise LookupError(f"site {context.site.name} has no hub; validation refuses that")
    return {
        "image": context.image,
        "modelImage": context.images["model-server"],
        "priorityClassName": context.provide(PRIORITY),
        "modelPriorityClassName": context.provide(MODEL_PRIORITY),
        "issuer": {
            "url": issuer.url,
            "audience": issuer.audience,
            "jwksUrl": issuer.jwks_url or "",
            "ca": issuer.ca or "",
        },
        "models": [_model(context, model) for model in context.settings.models],
        "hub": {"environment": hub.environment, "port": hub.port, "pods": dict(hub.pods)},
        "ingress": context.provide(_hostname(context.settings)),
        "api": {"host": context.provide(API)["host"], "paths": context.provide(API)["paths"]},
        "podAnnotations": dict(metrics.annotations),
        "networkPolicy": {
            "clients": [dict(INGRESS_CONTROLLER), *endpoint_clients(context.site)],
            "metricsClients": list(metrics.clients),
            "issuerPods": dict(issuer.pods),
            "egressPorts": sorted(issuer.ports),
        },
    }


SERVICE = Service(
    folder=Path(__file__).parent,
    needs=needs,
    check=check,
    values=values,
    model_endpoint=server,
)
