"""The ML Hub: a catalogue of models behind tokens."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from strata.catalogue.needs import Audience, Database, Hostname, Metrics, Need, Priority
from strata.catalogue.service import Service, ServiceContext, Values
from strata.models.base import Model, Unit
from strata.models.files import is_file
from strata.models.finding import Finding
from strata.models.types import Count, DnsLabel, HttpsUrl, SiteFile
from strata.models.yaml_events import dotted

if TYPE_CHECKING:
    from strata.models import Site
    from strata.models.yaml_events import KeyPath

DATABASE = Database("ml_hub")
AUDIENCE = Audience("ml-hub", path="/v3/ml-hub/models")
METRICS = Metrics(9464)
PRIORITY = Priority("platform")
CATALOGUE_KEY: KeyPath = ("platform", "services", "ml_hub", "catalogue", "file")
MAXIMUM_CHARACTERS = 1_000_000
"""A ConfigMap holds no more."""


class Catalogue(Model):
    """Source of the ML Hub's models; exactly one key."""

    layer: ClassVar[str] = "platform"
    file: Annotated[SiteFile | None, Field(description="JSON file, relative to the site file.")] = None
    hugging_face: Annotated[
        Count | None,
        Unit("models"),
        Field(description="Number of models to load from the Hugging Face API, the most downloaded first."),
    ] = None
    endpoint: Annotated[
        HttpsUrl | None, Field(description="With hugging_face: URL of a mirror of the API. Default: the public one.")
    ] = None
    ca_file: Annotated[
        SiteFile | None,
        Field(
            description="With hugging_face: PEM file of the CA of the endpoint's certificate, relative to the site "
            "file. Default: public CAs."
        ),
    ] = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.file is None) == (self.hugging_face is None):
            raise PydanticCustomError(
                "catalogue_source",
                "needs exactly one of file and hugging_face",
                {"fix": "for instance {file: catalogue.json}"},
            )
        if self.file is not None and (self.endpoint, self.ca_file) != (None, None):
            message = "endpoint and ca_file are for hugging_face, and the source is a file"
            raise PydanticCustomError("catalogue_source", message, {"fix": "remove them"})
        return self

    @property
    def hub_port(self) -> int:
        """TCP port of the Hugging Face API."""
        return urlsplit(self.endpoint or "").port or 443


class MlHub(Model):
    """Searchable catalogue of models, the ML Hub API, at https://<hostname>.<domain>/v3/ml-hub."""

    layer: ClassVar[str] = "platform"
    hostname: Annotated[DnsLabel, Field(description="Responds at https://<hostname>.<domain>.")] = "ml-hub"
    replicas: Annotated[Count, Unit("pods"), Field(description="Number of pods.")] = 1
    catalogue: Annotated[Catalogue, Field(description="Source of the models.")]


def _hostname(settings: MlHub) -> Hostname:
    return Hostname(
        settings.hostname,
        "/healthz",
        title="Models (API)",
        summary="A catalogue of machine-learning models, searched by programs with a token of your login.",
        start_path="/v3/ml-hub/openapi.json",
    )


def needs(settings: MlHub) -> tuple[Need[Any], ...]:
    """Its database, the site's tokens, a name, metrics, priority."""
    return (DATABASE, AUDIENCE, METRICS, PRIORITY, _hostname(settings))


def check(settings: MlHub, _: Site, directory: Path) -> Iterator[Finding]:
    """The catalogue's file is there and is a catalogue; the endpoint's CA is one."""
    if settings.catalogue.file is None:
        if settings.catalogue.ca_file is not None:
            from strata.models.checks.services import certificates_file  # it imports the services

            yield from certificates_file((*CATALOGUE_KEY[:-1], "ca_file"), directory / settings.catalogue.ca_file)
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
        fix = 'a JSON list of models: [{"id": "google/flan-t5-large", …}]'
        yield Finding(CATALOGUE_KEY, f"{file}: {error}", fix)


def values(context: ServiceContext[MlHub]) -> Values:
    """Values of helm/ml-hub.

    Raises:
        UserError: no PostgreSQL server is deployed, or the catalogue or the issuer's CA cannot be read.
    """
    hub = context.settings
    database = context.provide(DATABASE)
    issuer = context.provide(AUDIENCE)
    metrics = context.provide(METRICS)
    given: Values = {
        "image": context.image,
        "replicas": hub.replicas,
        "priorityClassName": context.provide(PRIORITY),
        "database": {**database.values, "existingSecret": database.password.value},
        "issuer": {"url": issuer.url, "audience": issuer.audience},
        "catalogue": _catalogue(context),
        "ingress": context.provide(_hostname(hub)),
        "podAnnotations": dict(metrics.annotations),
        "networkPolicy": {
            "metricsClients": list(metrics.clients),
            "issuerPods": dict(issuer.pods),
            "egressPorts": sorted({*issuer.ports, *([hub.catalogue.hub_port] if hub.catalogue.file is None else [])}),
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
        found: Values = {"source": "hub", "limit": catalogue.hugging_face}
        if catalogue.endpoint is not None:
            found["endpoint"] = catalogue.endpoint
        if catalogue.ca_file is not None:
            found["ca"] = context.read(dotted((*CATALOGUE_KEY[:-1], "ca_file")), Path(catalogue.ca_file))
        return found
    return {"source": "file", "text": context.read(dotted(CATALOGUE_KEY), Path(catalogue.file))}


def check_catalogue(file: Path) -> None:
    """Refuses a file that the hub would refuse.

    Args:
        file: a JSON list of models, each with the fields of `ml_hub.records.ModelRecord` and an id of its own.

    Raises:
        OSError: it is not there or cannot be read.
        ValueError: it is no catalogue; says why.
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
        models = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is no JSON: {error}") from None
    if not isinstance(models, list):
        raise ValueError("must hold a list of models")
    # by its name in the service's folder: the package ml_hub is installed in the service's own environment
    record = importlib.import_module(f"{__package__}.src.ml_hub.records").ModelRecord
    seen: set[str] = set()
    for number, model in enumerate(models):
        identifier = model.get("id") if isinstance(model, dict) else None
        if not isinstance(identifier, str) or not identifier:
            raise ValueError(f"entry {number} has no id")
        if identifier in seen:
            raise ValueError(f"entry {number}: duplicate id {identifier[:80]!r}")
        seen.add(identifier)
        try:
            record.model_validate(model)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(map(str, first["loc"]))
            label = f"entry {number} ({identifier[:80]!r})"
            raise ValueError(f"{label}: {key}: {first['msg']}, is {first['input']!r:.80}") from None


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is no number of JSON")


SERVICE = Service(
    folder=Path(__file__).parent,
    settings=MlHub,
    needs=needs,
    check=check,
    values=values,
)
