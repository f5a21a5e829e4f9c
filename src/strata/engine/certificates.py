"""The certificate of the services' names, as a Secret of the ingress controller."""

from __future__ import annotations

import base64
import json
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from strata.access.kubectl import Unanswered, cluster_command, kubectl_json
from strata.errors import UserError
from strata.models.platform import IngressCertificate
from strata.platform.ingress import CERTIFICATE_SECRET, INGRESS_NAMESPACE
from strata.progress import Progress
from strata.site.context import SiteContext

NAME = "ingress"
"""Of the certificate in the site's store."""
FIELD_MANAGER = "strata"


def apply_certificate(context: SiteContext, progress: Progress) -> int:
    """Applies the Secret where it is missing or differs; the controller reads it without a restart.

    The text goes to kubectl on standard input: neither Helm nor Pulumi knows it.

    Returns:
        How many Secrets were changed.

    Raises:
        UserError: the operator's certificate or key is unusable, or the cluster does not answer.
    """
    pair = certificate_pair(context)
    if pair is None:
        return 0
    progress.update("comparing the certificate of the ingress controller")
    data = {n: base64.b64encode(t.encode()).decode() for n, t in zip(("tls.crt", "tls.key"), pair, strict=True)}
    try:
        known = kubectl_json(
            context, "get", "secret", CERTIFICATE_SECRET, "--namespace", INGRESS_NAMESPACE, "--ignore-not-found"
        )
        if known and known.get("data") == data:
            return 0
        objects = {"apiVersion": "v1", "kind": "List", "items": [_namespace(), _secret(data)]}
        options = ("--server-side", "--force-conflicts", f"--field-manager={FIELD_MANAGER}", "--filename", "-")
        cluster_command(context, "kubectl", "apply", *options, text=json.dumps(objects))
    except Unanswered as error:
        raise UserError(f"the cluster does not answer: {error}", fix=f"strata status {context.site.name}") from None
    return 1


def certificate_pair(context: SiteContext) -> tuple[str, str] | None:
    """Certificate with its chain, and private key (PEM); None where the controller requests its own.

    Raises:
        UserError: the operator's certificate or key is unusable.
    """
    site = context.site
    given = site.platform.ingress.certificate
    if given.source == "acme":
        return None
    if given.source == "site":
        issued = context.secrets.certificate(NAME, [site.domain, f"*.{site.domain}"])
        return issued.certificate, issued.private_key
    return _provided(context, given)


def _provided(context: SiteContext, given: IngressCertificate) -> tuple[str, str]:
    root = f"{context.site_file}: platform.ingress.certificate"
    assert given.certificate is not None
    assert given.private_key is not None
    file = context.site_file.parent / given.certificate
    try:
        certificate = file.read_text(encoding="ascii")
        public = x509.load_pem_x509_certificate(certificate.encode()).public_key()
    except (OSError, ValueError) as error:
        raise UserError(
            f"{root}.certificate: {file}: {error}",
            fix="name a PEM file with the certificate, then its chain",
            see="the-services-certificate-cannot-be-used",
        ) from None
    key = context.secrets.get(given.private_key) + "\n"
    try:
        own = serialization.load_pem_private_key(key.encode(), None).public_key()
    except (ValueError, TypeError):
        raise UserError(
            f"{root}.private_key: secret {given.private_key} is no PEM private key without passphrase",
            fix="provide the key that belongs to the certificate",
            see="the-services-certificate-cannot-be-used",
        ) from None
    if _public(own) != _public(public):
        raise UserError(
            f"{root}.private_key: secret {given.private_key} does not belong to {file}",
            fix="provide the key that belongs to the certificate",
            see="the-services-certificate-cannot-be-used",
        )
    return certificate, key


def _public(key: Any) -> bytes:
    found: bytes = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return found


def _namespace() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": INGRESS_NAMESPACE}}


def _secret(data: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": CERTIFICATE_SECRET, "namespace": INGRESS_NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata, "data": data}
