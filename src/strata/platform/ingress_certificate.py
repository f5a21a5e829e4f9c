"""The certificate of the services' names, as a Secret that the ingress controller reads."""

from __future__ import annotations

from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from strata.catalogue.published import wildcards
from strata.errors import UserError
from strata.models.platform import IngressCertificate
from strata.platform.releases import PlatformState

NAME = "ingress"
"""Of the certificate in the site's store."""


def certificate_data(state: PlatformState) -> dict[str, str]:
    """Entries of the Secret: certificate with its chain, and private key (PEM); none where the controller requests its
    own.

    Raises:
        UserError: the operator's certificate or key is unusable.
    """
    site = state.site
    given = site.platform.ingress.certificate
    if site.cluster is None or given.source == "acme":
        return {}
    if given.source == "site":
        issued = state.secrets.certificate(NAME, [site.domain, f"*.{site.domain}", *wildcards(site)])
        return {"tls.crt": issued.certificate, "tls.key": issued.private_key}
    certificate, key = _provided(state, given)
    return {"tls.crt": certificate, "tls.key": key}


def _provided(state: PlatformState, given: IngressCertificate) -> tuple[str, str]:
    root = f"{state.site_file}: platform.ingress.certificate"
    assert given.certificate is not None
    assert given.private_key is not None
    file = state.site_file.parent / given.certificate
    try:
        certificate = file.read_text(encoding="ascii")
        public = x509.load_pem_x509_certificate(certificate.encode()).public_key()
    except (OSError, ValueError) as error:
        raise UserError(
            f"{root}.certificate: {file}: {error}",
            fix="name a PEM file with the certificate, then its chain",
            see="the-services-certificate-cannot-be-used",
        ) from None
    key = state.secrets.get(given.private_key) + "\n"
    try:
        own = serialization.load_pem_private_key(key.encode(), None).public_key()
    except (ValueError, TypeError):
        raise UserError(
            f"{root}.private_key: secret {given.private_key} is not a PEM private key without passphrase",
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
    encoded: bytes = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return encoded
