"""The ML Hub: a catalogue of models behind tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pulumi

from strata.errors import UserError
from strata.inventory.ports import NODE_PORTS, POSTGRESQL
from strata.inventory.topology import address_of, database_secret
from strata.models import Site
from strata.models.catalogue import read_catalogue
from strata.models.platform import Catalogue, ExternalIssuer, TokenIssuer
from strata.models.platform import MlHub as MlHubModel
from strata.platform.releases import SYSTEM_NAMESPACE, ChartRelease, ReleaseArgs
from strata.platform.token_issuer import AUDIENCE, issuer_url, keys_url
from strata.platform.values import Secrets, SecretText, Values, image
from strata.site.outputs import CloudOutputs, ImageOutputs

DATABASE = "ml_hub"
"""Database and role in the site's PostgreSQL."""


@dataclass(frozen=True)
class MlHubArgs:
    """The release ml-hub.

    Args:
        values: of helm/ml-hub.
    """

    values: Values


class MlHub(ChartRelease):
    """Release of helm/ml-hub."""

    def __init__(self, name: str, args: MlHubArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("MlHub", name, ReleaseArgs("ml-hub", SYSTEM_NAMESPACE, args.values), opts)


def values(
    site: Site,
    hub: MlHubModel,
    issuer: TokenIssuer | ExternalIssuer,
    *,
    site_file: Path,
    outputs: CloudOutputs | None,
    images: ImageOutputs,
    secrets: Secrets,
) -> Values:
    """Values of helm/ml-hub.

    Args:
        site: the site.
        hub: its service.
        issuer: whose tokens it takes.
        site_file: the files of catalogue and issuer are relative to it.
        outputs: where the instances are.
        images: of the site's registry.
        secrets: of the site.

    Raises:
        UserError: no PostgreSQL stands, or the catalogue or the issuer's authority cannot be read.
    """
    database = address_of("postgresql", site, outputs)
    if database is None:
        raise UserError(
            f"site {site.name}: platform.services.ml_hub needs a host with the role postgresql, and none stands",
            fix=f"strata up {site.name} --layer cloud",
        )
    return {
        "image": image(images, "ml-hub"),
        "replicas": hub.replicas,
        "database": {
            "host": database,
            "port": POSTGRESQL,
            "name": DATABASE,
            "user": DATABASE,
            "password": SecretText(secrets.get(database_secret(DATABASE))),
            "ca": secrets.ca,
        },
        **_issuer(site, issuer, hub.catalogue, site_file),
        "catalogue": _catalogue(hub.catalogue, site_file),
        "service": {"type": "NodePort", "port": 8080, "nodePort": NODE_PORTS["ml_hub"]},
    }


def _issuer(site: Site, issuer: TokenIssuer | ExternalIssuer, catalogue: Catalogue, site_file: Path) -> Values:
    """Whose tokens the hub takes, and where it may read the keys and the catalogue."""
    if isinstance(issuer, TokenIssuer):
        return {
            "issuer": {"url": issuer_url(site, issuer), "audience": AUDIENCE, "jwksUrl": keys_url()},
            "networkPolicy": {
                "issuerPods": {"app.kubernetes.io/name": "token-issuer"},
                "egressPorts": [443] if catalogue.file is None else [],
            },
        }
    found: Values = {"url": issuer.url, "audience": issuer.audience}
    if issuer.jwks_url is not None:
        found["jwksUrl"] = issuer.jwks_url
    if issuer.ca_file is not None:
        found["ca"] = _read(site_file, "platform.services.external_issuer.ca_file", issuer.ca_file)
    # 443 for the hub of models, and where the discovery document leads
    ports = {443, *(urlsplit(url).port or 443 for url in (issuer.url, issuer.jwks_url) if url is not None)}
    return {"issuer": found, "networkPolicy": {"egressPorts": sorted(ports)}}


def _catalogue(catalogue: Catalogue, site_file: Path) -> Values:
    if catalogue.file is None:
        return {"source": "hub", "limit": catalogue.hugging_face}
    key = "platform.services.ml_hub.catalogue.file"
    file = site_file.parent / catalogue.file
    try:
        return {"source": "file", "text": read_catalogue(file)}
    except OSError as error:
        raise UserError(
            f"{site_file}: {key}: {file}: {error.strerror}",
            fix="name a file beside site.yaml",
            see="the-model-catalogue-cannot-be-read",
        ) from error
    except ValueError as error:
        raise UserError(
            f"{site_file}: {key}: {file}: {error}", fix="mend the file", see="the-model-catalogue-cannot-be-read"
        ) from error


def _read(site_file: Path, key: str, name: str) -> str:
    """A text file that a key of the site file names.

    Raises:
        UserError: it is not there, cannot be read, or is no text.
    """
    file = site_file.parent / name
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"{site_file}: {key}: {file}: {error.strerror}",
            fix="name a file beside site.yaml",
            see="the-model-catalogue-cannot-be-read",
        ) from error
    except UnicodeDecodeError as error:
        raise UserError(f"{site_file}: {key}: {file} is not UTF-8 text", fix="save it as UTF-8") from error
