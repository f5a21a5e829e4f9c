"""The ML Hub: a catalogue of models behind tokens."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pulumi

from strata.errors import UserError
from strata.inventory.ports import NODE_PORTS, POSTGRESQL
from strata.inventory.topology import address_of, database_secret
from strata.models import Site
from strata.models.platform import Catalogue, TokenIssuer
from strata.models.platform import MlHub as MlHubModel
from strata.outputs import CloudOutputs, ImageOutputs
from strata.platform.releases import SYSTEM_NAMESPACE, ChartRelease, ReleaseArgs
from strata.platform.token_issuer import AUDIENCE, issuer_url, keys_url
from strata.platform.values import Secrets, SecretText, Values, image

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
    issuer: TokenIssuer,
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
        site_file: the catalogue's file is relative to it.
        outputs: where the instances are.
        images: of the site's registry.
        secrets: of the site.

    Raises:
        UserError: no PostgreSQL stands, or the catalogue cannot be read.
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
        "issuer": {"url": issuer_url(site, issuer), "audience": AUDIENCE, "jwksUrl": keys_url()},
        "catalogue": _catalogue(hub.catalogue, site_file),
        "service": {"type": "NodePort", "port": 8080, "nodePort": NODE_PORTS["ml_hub"]},
    }


def _catalogue(catalogue: Catalogue, site_file: Path) -> Values:
    if catalogue.file is None:
        return {"source": "hub", "limit": catalogue.hugging_face}
    file = site_file.parent / catalogue.file
    key = "platform.services.ml_hub.catalogue.file"
    try:
        text = file.read_text(encoding="utf-8")
        json.loads(text)
    except OSError as error:
        raise UserError(f"{site_file}: {key}: {file}: {error.strerror}", fix="name a file beside site.yaml") from error
    except ValueError as error:
        raise UserError(f"{site_file}: {key}: {file} is no JSON: {error}", fix="mend the file") from error
    return {"source": "file", "text": text}
