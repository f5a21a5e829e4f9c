"""The ML Hub: a catalogue of models and datasets behind tokens."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from strata.catalogue.needs import (
    ApiPath,
    Audience,
    Client,
    Database,
    Hostname,
    HuggingFace,
    Metrics,
    ModelEndpoints,
    Need,
    Priority,
    Secret,
)
from strata.catalogue.needs.hugging_face import HubServer
from strata.catalogue.published import front_page_url
from strata.catalogue.service import Service, ServiceContext, Values
from strata.catalogue.site_services import needed
from strata.models.files import certificates_file, is_file
from strata.models.finding import Finding
from strata.models.key_path import KeyPath, dotted
from strata.models.site import Site
from strata_services.ml_hub.settings import MlHub

DATABASE = Database("ml_hub")
AUDIENCE = Audience("ml-hub", path="/v3/ml-hub/models")
METRICS = Metrics(9464)
PRIORITY = Priority("platform")
MIRROR = HuggingFace(f"app.kubernetes.io/name={Path(__file__).parent.name}")
"""Cards and names of files, unless the site names another endpoint."""
INFERENCE = ModelEndpoints()
API = ApiPath(
    health_path="/v3/ml-hub/openapi.json",
    title="Models (API)",
    summary="A catalogue of machine-learning models and datasets, searched by programs with a token of your login.",
    start_path="/v3/ml-hub/openapi.json",
    paths=("/v3/ml-hub",),
)
SESSION_KEY = Secret("ml_hub_session_key", key="session-key")
LOGIN_PATH = "/v3/oauth2"
"""Of the API, where a service of the site logs programs in."""
CATALOGUE_KEY: KeyPath = ("platform", "services", "ml_hub", "catalogue", "file")
MAXIMUM_CHARACTERS = 1_000_000
"""A ConfigMap holds no more."""


def _hostname(settings: MlHub) -> Hostname:
    return Hostname(
        settings.hostname,
        "/healthz",
        title="Models and datasets",
        summary="Find models and datasets, read their cards, and copy the lines that load them.",
    )


def _client(settings: MlHub) -> Client:
    """Logs people in at the pages."""
    return Client(
        "ml-hub-login",
        # its visitors' tokens are for the pages that ask models, and for nothing else
        ("inference",),
        hostname=_hostname(settings),
        redirect_paths=("/.login/callback",),
        logout_paths=("/.logout",),
    )


def needs(settings: MlHub) -> tuple[Need[Any], ...]:
    """Its database, the site's tokens, a name, a path of the API, logins, a key for sessions, the mirror of the Hub,
    the inference server, metrics, priority.
    """
    login = (_client(settings), SESSION_KEY)
    return (DATABASE, AUDIENCE, METRICS, PRIORITY, MIRROR, INFERENCE, _hostname(settings), API, *login)


def check(settings: MlHub, _: Site, directory: Path) -> Iterator[Finding]:
    """The catalogue's file is there and is a catalogue; the endpoint's CA is one."""
    if settings.catalogue.ca_file is not None:
        yield from certificates_file((*CATALOGUE_KEY[:-1], "ca_file"), directory / settings.catalogue.ca_file)
    if settings.catalogue.file is None:
        return
    file = directory / settings.catalogue.file
    if not is_file(file):
        fix = "the path of a JSON file, relative to the site file"
        yield Finding(CATALOGUE_KEY, f"there is no file {file}", fix)
        return
    try:
        check_catalogue(file)
    except OSError as error:
        yield Finding(CATALOGUE_KEY, f"{file} cannot be read: {error.strerror}", "a readable JSON file")
    except ValueError as error:
        fix = 'JSON: {"models": [{"id": "google/flan-t5-large", …}], "datasets": [{"id": "rajpurkar/squad", …}]}'
        yield Finding(CATALOGUE_KEY, f"{file}: {error}", fix)


def values(context: ServiceContext[MlHub]) -> Values:
    """Values of helm/ml-hub.

    Raises:
        UserError: no PostgreSQL server is deployed, the catalogue or the issuer's CA cannot be read, or the external
            issuer's URLs are neither set nor to be discovered.
    """
    hub = context.settings
    client = context.provide(_client(hub))
    database = context.provide(DATABASE)
    issuer = context.provide(AUDIENCE)
    metrics = context.provide(METRICS)
    mirror = _mirror(context)
    given: Values = {
        "image": context.image,
        "replicas": hub.replicas,
        "priorityClassName": context.provide(PRIORITY),
        "database": {**database.values, "existingSecret": database.password.value},
        "issuer": {"url": issuer.url, "audience": issuer.audience},
        "login": {
            "authorizeUrl": client.public.authorize,
            "tokenUrl": client.internal.token,
            "client": {"id": client.id, "existingSecret": client.secret.value},
            "sessionKey": {"existingSecret": context.provide(SESSION_KEY).value},
        },
        "web": {
            "logoutUrl": client.public.logout,
            "frontPageUrl": front_page_url(context.site),
            **_token_urls(context.site),
        },
        "catalogue": _catalogue(context),
        "hub": _hub(context),
        "inference": _inference(context),
        "ingress": {**context.provide(_hostname(hub)), "api": context.provide(API)},
        "podAnnotations": dict(metrics.annotations),
        "networkPolicy": {
            "metricsClients": list(metrics.clients),
            "issuerPods": dict(issuer.pods),
            "egressPorts": sorted({*issuer.ports, *client.ports, *([] if mirror else hub.catalogue.hub_ports)}),
            "egress": [server.egress for server in (mirror, context.provide(INFERENCE)) if server],
        },
    }
    if issuer.jwks_url is not None:
        given["issuer"]["jwksUrl"] = issuer.jwks_url
    if issuer.ca is not None:
        given["issuer"]["ca"] = issuer.ca
    return given


def _catalogue(context: ServiceContext[MlHub]) -> Values:
    catalogue = context.settings.catalogue
    if catalogue.file is None:
        return {"source": "hub", "limit": catalogue.hugging_face}
    return {"source": "file", "text": context.read(dotted(CATALOGUE_KEY), Path(catalogue.file))}


def _mirror(context: ServiceContext[MlHub]) -> HubServer | None:
    return context.provide(MIRROR) if context.settings.catalogue.endpoint is None else None


def _hub(context: ServiceContext[MlHub]) -> Values:
    catalogue = context.settings.catalogue
    if mirror := _mirror(context):
        return {"url": mirror.url, "publicUrl": mirror.public_url}
    values: Values = {} if catalogue.hub is None else {"url": catalogue.hub}
    if catalogue.ca_file is not None:
        values["ca"] = context.read(dotted((*CATALOGUE_KEY[:-1], "ca_file")), Path(catalogue.ca_file))
    return values


def _token_urls(site: Site) -> Values:
    """Where users get tokens, at a site with a service that logs programs in."""
    for service, need in needed(site, ApiPath):
        if LOGIN_PATH in need.paths:
            names = (own for other, own in needed(site, Hostname) if other is service and own.path == "/")
            pages = next((f"https://{own.host(site)}{own.start_path}" for own in names), "")
            return {"apiLoginUrl": f"https://{need.host(site)}{LOGIN_PATH}/tokens", "tokenPageUrl": pages}
    return {}


def _inference(context: ServiceContext[MlHub]) -> Values:
    server = context.provide(INFERENCE)
    if server is None:
        return {}
    models = {name: list(tenants) for name, tenants in server.models.items()}
    urls = {"url": server.url, "openaiUrl": server.openai_url, "internalUrl": server.internal_url}
    return {**urls, "models": models}


def check_catalogue(file: Path) -> None:
    """Refuses a file that the hub would refuse.

    Args:
        file: JSON as `ml_hub.records.entries` describes it; each entry has the fields of its record, and an id of its
            own.

    Raises:
        OSError: it is not there or cannot be read.
        ValueError: it is not a catalogue; gives the reason.
    """
    with file.open("rb") as stream:
        content = stream.read(4 * MAXIMUM_CHARACTERS + 4)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 text") from None
    if len(text) > MAXIMUM_CHARACTERS:
        raise ValueError(f"has more than {MAXIMUM_CHARACTERS:,} characters, the most that a ConfigMap holds")
    try:
        content = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from None
    # by its name in the service's folder: the package ml_hub is installed in the service's own environment
    records = importlib.import_module(f"{__package__}.src.ml_hub.records")
    for kind, listed in records.entries(content).items():
        _check_entries(kind, listed, records.KINDS[kind])


def _check_entries(kind: str, listed: list[Any], record: type[BaseModel]) -> None:
    seen: set[str] = set()
    for number, entry in enumerate(listed):
        identifier = entry.get("id") if isinstance(entry, dict) else None
        if not isinstance(identifier, str) or not identifier:
            raise ValueError(f"{kind}: entry {number} has no id")
        if identifier in seen:
            raise ValueError(f"{kind}: entry {number}: duplicate id {identifier[:80]!r}")
        seen.add(identifier)
        try:
            record.model_validate(entry)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(map(str, first["loc"]))
            label = f"{kind}: entry {number} ({identifier[:80]!r})"
            raise ValueError(f"{label}: {key}: {first['msg']}, is {first['input']!r:.80}") from None


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is not a JSON number")


SERVICE = Service(
    folder=Path(__file__).parent,
    needs=needs,
    check=check,
    values=values,
)
