"""A real browser at the site."""

from __future__ import annotations

import base64
import hashlib
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from strata.access.https import load_balancer_address, trusted_authorities
from strata.site.context import SiteContext
from strata_bench.browser import Browser, browser


@contextmanager
def site_browser(context: SiteContext, host: str) -> Iterator[Browser]:
    """A browser that finds the site's names and trusts the certificate that the site's CA signed.

    Args:
        context: the site.
        host: name at the load balancer that shows the certificate.
    """
    address, authorities = load_balancer_address(context), trusted_authorities(context)
    trusting = ssl.create_default_context(cafile=authorities if isinstance(authorities, str) else None)
    with (
        socket.create_connection((address, 443), timeout=30) as plain,
        trusting.wrap_socket(plain, server_hostname=host) as session,
    ):
        certificate = x509.load_der_x509_certificate(session.getpeercert(binary_form=True) or b"")
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    domain = context.site.domain
    rules = f"MAP {domain} {address}, MAP *.{domain} {address}"
    with browser(hosts=rules, public_key=base64.b64encode(hashlib.sha256(key).digest()).decode()) as opened:
        yield opened
