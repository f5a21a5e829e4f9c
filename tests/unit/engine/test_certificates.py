"""The certificate of the services' names reaches the cluster once, by standard input alone."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from strata.engine import certificates
from strata.errors import UserError
from strata.models.platform import IngressCertificate
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site.secrets import pki

DOMAIN = "hall.example.org"


class Cluster:
    """Keeps the Secret that was applied last."""

    def __init__(self) -> None:
        self.secret: dict[str, Any] | None = None
        self.commands: list[tuple[str, ...]] = []

    def get(self, _: SiteContext, *arguments: str) -> dict[str, Any] | None:
        assert arguments[:3] == ("get", "secret", "site-certificate")
        return self.secret

    def apply(self, _: SiteContext, *command: str, text: str) -> str:
        self.commands.append(command)
        namespace, self.secret = json.loads(text)["items"]
        assert namespace["metadata"]["name"] == "traefik"
        return ""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster()
    monkeypatch.setattr(certificates, "kubectl_json", found.get)
    monkeypatch.setattr(certificates, "cluster_command", found.apply)
    return found


class Store:
    """A store with one authority; a certificate is issued again when it was deleted."""

    def __init__(self, **provided: str) -> None:
        self.authority, self.key = pki.create_authority("hall")
        self.provided = provided
        self.issued: pki.Certificate | None = None

    def certificate(self, name: str, names: list[str]) -> pki.Certificate:
        assert (name, names) == ("ingress", [DOMAIN, f"*.{DOMAIN}"])
        self.issued = self.issued or pki.issue(self.authority, self.key, name, names, [])
        return self.issued

    def get(self, name: str) -> str:
        return self.provided[name]


def context(tmp_path: Path, store: Store, certificate: IngressCertificate) -> SiteContext:
    platform = SimpleNamespace(ingress=SimpleNamespace(certificate=certificate))
    site = SimpleNamespace(name="hall", domain=DOMAIN, platform=platform)
    return cast("SiteContext", SimpleNamespace(site=site, site_file=tmp_path / "site.yaml", secrets=store))


def test_certificate_is_applied_once_and_again_when_renewed(cluster: Cluster, tmp_path: Path) -> None:
    store = Store()
    site = context(tmp_path, store, IngressCertificate())
    assert [certificates.apply_certificate(site, Silent()) for _ in range(2)] == [1, 0]
    assert store.issued is not None
    assert cluster.secret is not None
    assert base64.b64decode(cluster.secret["data"]["tls.crt"]).decode() == store.issued.certificate
    assert base64.b64decode(cluster.secret["data"]["tls.key"]).decode() == store.issued.private_key
    assert not any("BEGIN" in word for command in cluster.commands for word in command)
    store.issued = None
    assert [certificates.apply_certificate(site, Silent()) for _ in range(2)] == [1, 0]


def provided(tmp_path: Path, other_key: str | None = None) -> SiteContext:
    """A site with a certificate of another CA."""
    issued = pki.issue(*pki.create_authority("elsewhere"), "hall", [f"*.{DOMAIN}"], [])
    (tmp_path / "certificate.pem").write_text(issued.certificate)
    store = Store(ingress_key=(other_key or issued.private_key).strip())
    given = IngressCertificate(source="files", certificate="certificate.pem", private_key="ingress_key")
    return context(tmp_path, store, given)


def test_provided_certificate_is_applied(cluster: Cluster, tmp_path: Path) -> None:
    assert certificates.apply_certificate(provided(tmp_path), Silent()) == 1
    assert cluster.secret is not None
    assert b"PRIVATE KEY" in base64.b64decode(cluster.secret["data"]["tls.key"])


@pytest.mark.parametrize("reason", ["is no PEM private key", "does not belong to"])
def test_wrong_key_is_named_and_not_shown(cluster: Cluster, tmp_path: Path, reason: str) -> None:
    key = "text-that-is-no-key" if "PEM" in reason else pki.create_authority("other")[1]
    with pytest.raises(UserError, match=reason) as raised:
        certificates.apply_certificate(provided(tmp_path, key), Silent())
    assert "platform.ingress.certificate.private_key: secret ingress_key" in str(raised.value)
    assert key.strip() not in str(raised.value)
    assert cluster.secret is None


def test_missing_certificate_is_named(cluster: Cluster, tmp_path: Path) -> None:
    site = provided(tmp_path)
    (tmp_path / "certificate.pem").unlink()
    with pytest.raises(UserError, match=r"platform\.ingress\.certificate\.certificate: .*certificate\.pem"):
        certificates.apply_certificate(site, Silent())
    assert cluster.secret is None


def test_acme_needs_no_secret(cluster: Cluster, tmp_path: Path) -> None:
    site = context(tmp_path, Store(), IngressCertificate(source="acme", email="operators@example.org"))
    assert certificates.apply_certificate(site, Silent()) == 0
    assert cluster.commands == []
