"""The site's certificate authority: X.509 with ECDSA P-256 keys."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 397
"""Longest life that browsers accept of a server certificate (CA/Browser Forum ballot SC31), in days."""
RENEWAL_SHARE = 1 / 3
"""A certificate with less than this part of its lifetime left is reissued."""


@dataclass(frozen=True)
class Certificate:
    """PEM texts of a certificate, its private key (PKCS #8) and the authority that signed it."""

    certificate: str
    private_key: str = field(repr=False)
    ca: str


def _key_text(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _names(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])


def _builder(subject: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_names(subject))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # an hour back, for hosts whose clocks lag
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def create_authority(site: str) -> tuple[str, str]:
    """A new authority for a site.

    Returns:
        Certificate and private key, PEM.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = f"Strata site {site}"
    certificate = (
        _builder(name, _names(name), key, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), _key_text(key)


def issue(
    authority: str, authority_key: str, name: str, dns_names: Sequence[str], ip_addresses: Sequence[str]
) -> Certificate:
    """A server and client certificate signed by the authority.

    Args:
        authority: PEM of the authority's certificate.
        authority_key: PEM of its private key.
        name: common name.
        dns_names: subject alternative names.
        ip_addresses: IPv4 or IPv6 addresses as further alternative names.

    Raises:
        ValueError: an address or the authority's PEM does not parse.
    """
    signer = serialization.load_pem_private_key(authority_key.encode(), None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority's key is not an elliptic curve key")
    parent = x509.load_pem_x509_certificate(authority.encode())
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives: list[x509.GeneralName] = [x509.DNSName(n) for n in dns_names]
    alternatives += [x509.IPAddress(ipaddress.ip_address(a)) for a in ip_addresses]
    certificate = (
        _builder(name, parent.subject, key, CERTIFICATE_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
            critical=False,
        )
        .sign(signer, hashes.SHA256())
    )
    return Certificate(certificate.public_bytes(serialization.Encoding.PEM).decode(), _key_text(key), authority)


@dataclass(frozen=True)
class Validity:
    """How long a certificate lives.

    Args:
        begins: first moment.
        ends: last moment.
        left: from now to its end; negative after it.
    """

    begins: datetime.datetime
    ends: datetime.datetime
    left: datetime.timedelta

    @property
    def due(self) -> bool:
        """Whether it is time for a new one."""
        return self.left < RENEWAL_SHARE * (self.ends - self.begins)


def validity(certificate: str) -> Validity:
    """Of a certificate's PEM.

    Raises:
        ValueError: it does not parse.
    """
    loaded = x509.load_pem_x509_certificate(certificate.encode())
    begins, ends = loaded.not_valid_before_utc, loaded.not_valid_after_utc
    return Validity(begins, ends, ends - datetime.datetime.now(datetime.UTC))


def covers(certificate: str, dns_names: Sequence[str], ip_addresses: Sequence[str]) -> bool:
    """Whether a certificate names exactly these and is not due for renewal."""
    loaded = x509.load_pem_x509_certificate(certificate.encode())
    if validity(certificate).due:
        return False
    names = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    have_addresses = {str(a) for a in names.get_values_for_type(x509.IPAddress)}
    return set(names.get_values_for_type(x509.DNSName)) == set(dns_names) and have_addresses == {
        str(ipaddress.ip_address(a)) for a in ip_addresses
    }
