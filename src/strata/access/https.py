"""HTTPS to a site's services by their names, as its users ask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from strata.site.context import SiteContext
from strata.site.host_list import outside_of


class _NamedAdapter(HTTPAdapter):
    """Checks the certificate of an address against a name."""

    def __init__(self, name: str) -> None:
        self._name = name
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        """Called by the base class."""
        super().init_poolmanager(*arguments, server_hostname=self._name, assert_hostname=self._name, **options)


def named_session(ca_file: Path, name: str | None) -> requests.Session:
    """A session for a server that is reached by its address: no proxy, no .netrc.

    Args:
        ca_file: PEM file of the authority that signed the server's certificate.
        name: in that certificate; None where it has the address.
    """
    session = requests.Session()
    session.trust_env = False
    session.verify = str(ca_file)
    if name is not None:
        session.mount("https://", _NamedAdapter(name))
    return session


class _SiteAdapter(HTTPAdapter):
    """Sends the site's domain and the names below it to the load balancer, as its DNS would."""

    def __init__(self, domain: str, address: str) -> None:
        self.domain, self.address = domain, address
        super().__init__()

    def send(self, request: requests.PreparedRequest, *arguments: Any, **options: Any) -> requests.Response:
        """Called by requests."""
        given = request.headers.get("Host")
        try:
            return super().send(request, *arguments, **options)
        finally:
            # a redirect to another name would be sent with it, and with the cookies of that name
            if given is None:
                request.headers.pop("Host", None)

    def get_connection_with_tls_context(
        self,
        request: requests.PreparedRequest,
        verify: Any,
        proxies: Any = None,  # noqa: ARG002  # the base class names it
        cert: Any = None,
    ) -> Any:
        host, pool_arguments = self.build_connection_pool_key_attributes(request, verify, cert)
        name = str(host["host"])
        if name == self.domain or name.endswith("." + self.domain):
            request.headers.setdefault("Host", name)
            names = {"server_hostname": name, "assert_hostname": name}
            return self.poolmanager.connection_from_host(
                self.address, port=host["port"], scheme=host["scheme"], pool_kwargs={**pool_arguments, **names}
            )
        return self.poolmanager.connection_from_host(**host, pool_kwargs=pool_arguments)


def load_balancer_address(context: SiteContext) -> str:
    """Where the host with the role load_balancer is reached.

    Raises:
        LookupError: there is none.
    """
    address = outside_of("load_balancer", context.site, context.cloud_outputs)
    if address is None:
        raise LookupError("no host has the role load_balancer")
    return address


def trusted_authorities(context: SiteContext) -> str | bool:
    """PEM file of the CA that signed the services' certificates; True for the public CAs."""
    certificate = context.site.platform.ingress.certificate
    if certificate.source == "site":
        return str(context.paths.ca_file)
    return str(context.site_file.parent / certificate.ca_file) if certificate.ca_file else True


def site_session(context: SiteContext) -> requests.Session:
    """A session that trusts the CA of the services' certificates and finds its names at the load balancer.

    Raises:
        LookupError: no host has the role load_balancer.
    """
    session = requests.Session()
    session.trust_env = False
    session.verify = trusted_authorities(context)
    session.mount("https://", _SiteAdapter(context.site.domain, load_balancer_address(context)))
    return session
