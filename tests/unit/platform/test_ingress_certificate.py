"""Where the certificate of the services' names comes from, and the Secret that the ingress controller reads."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from strata.errors import UserError
from strata.models.platform import Ingress, IngressCertificate
from strata.platform.ingress_certificate import certificate_data
from strata.platform.release_secrets import secret_manifests
from strata.platform.releases import PlatformState
from strata.site.outputs import ImageOutputs
from strata.site.secrets import Certificate, pki
from strata.site_file.loader import load_site
from strata_bench.made_up_secrets import MadeUpSecrets

from .test_values import IMAGES, SITES, outputs

KEY = ("traefik", "site-certificate")


class Store(MadeUpSecrets):
    """A store with one CA; a certificate is issued again after a renewal."""

    def __init__(self, **provided: str) -> None:
        super().__init__()
        self.authority, self.key = pki.create_authority("hall")
        self.stored |= provided
        self.issued: Certificate | None = None

    def certificate(self, name: str, dns_names: Sequence[str] = ()) -> Certificate:
        self.issued = self.issued or pki.issue(self.authority, self.key, name, dns_names, [])
        return self.issued


def state(store: Store, certificate: IngressCertificate, site_file: Path = SITES["lab"]) -> PlatformState:
    site = load_site(SITES["lab"])
    platform = site.platform.model_copy(update={"ingress": Ingress(certificate=certificate)})
    changed = site.model_copy(update={"platform": platform})
    return PlatformState(changed, site_file, outputs(site), IMAGES, store)


def test_certificate_of_the_site_covers_every_name() -> None:
    store = Store()
    made = state(store, IngressCertificate())
    secret = secret_manifests(made)[KEY]
    assert secret["type"] == "kubernetes.io/tls"
    data = {name: base64.b64decode(value).decode() for name, value in secret["data"].items()}
    assert store.issued is not None
    assert data == {"tls.crt": store.issued.certificate, "tls.key": store.issued.private_key}
    assert pki.covers(data["tls.crt"], ["lab.strata.test", "*.lab.strata.test", "*.pods.lab.strata.test"], [])
    assert secret_manifests(made)[KEY] == secret
    store.issued = None
    assert secret_manifests(made)[KEY] != secret, "a renewed certificate is applied"


def test_certificate_is_a_secret_of_the_release_traefik() -> None:
    made = state(Store(), IngressCertificate())
    assert list(secret_manifests(made, ["traefik"])) == [KEY]
    assert KEY not in secret_manifests(made, ["ml-hub"])


@pytest.fixture
def provided(tmp_path: Path) -> Callable[..., PlatformState]:
    """`provided(key)` → a site with a certificate of another CA, and this key or its own."""
    issued = pki.issue(*pki.create_authority("elsewhere"), "lab", ["*.lab.strata.test"], [])
    (tmp_path / "certificate.pem").write_text(issued.certificate)
    given = IngressCertificate(source="files", certificate="certificate.pem", private_key="ingress_key")

    def of(key: str = issued.private_key) -> PlatformState:
        return state(Store(ingress_key=key.strip()), given, tmp_path / "site.yaml")

    return of


def test_provided_certificate_is_used(provided: Callable[..., PlatformState], tmp_path: Path) -> None:
    data = certificate_data(provided())
    assert data["tls.crt"] == (tmp_path / "certificate.pem").read_text()
    assert "PRIVATE KEY" in data["tls.key"]


@pytest.mark.parametrize("reason", ["is not a PEM private key", "does not belong to"])
def test_wrong_key_is_named_and_not_shown(provided: Callable[..., PlatformState], reason: str) -> None:
    key = "text-that-is-no-key" if "PEM" in reason else pki.create_authority("other")[1]
    with pytest.raises(UserError, match=reason) as raised:
        certificate_data(provided(key))
    assert "platform.ingress.certificate.private_key: secret ingress_key" in str(raised.value)
    assert key.strip() not in str(raised.value)


def test_missing_certificate_is_named(provided: Callable[..., PlatformState], tmp_path: Path) -> None:
    made = provided()
    (tmp_path / "certificate.pem").unlink()
    with pytest.raises(UserError, match=r"platform\.ingress\.certificate\.certificate: .*certificate\.pem"):
        certificate_data(made)


def test_acme_needs_no_secret() -> None:
    made = state(Store(), IngressCertificate(source="acme", email="operators@example.org"))
    assert KEY not in secret_manifests(replace(made, images=ImageOutputs(images={})))
