"""What is known of the site's issuer of tokens: a service of its own, or the identity provider that external_issuer
names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from strata.catalogue.discovery import services
from strata.catalogue.service import ServiceContext
from strata.catalogue.site_services import issuer
from strata.errors import UserError
from strata.models.finding import Finding
from strata.models.key_path import KeyPath
from strata.models.platform import ExternalIssuer
from strata.models.site import Site

HTTPS = 443
DISCOVERY = "/.well-known/openid-configuration"
DISCOVERY_SECONDS = 20
GROUPS_CLAIM = "groups"
"""Groups of the token's holder, each with its full path."""
USERNAME_CLAIM = "preferred_username"
KEY = "platform.services.external_issuer"


def tenant_group(tenant: str) -> str:
    """Of a tenant's members, as the groups claim has it."""
    return f"/tenants/{tenant}"


def administrators_group(tenant: str) -> str:
    """Of a tenant's principal investigators, who are also in `tenant_group`."""
    return f"{tenant_group(tenant)}/admins"


@dataclass(frozen=True)
class Endpoints:
    """URLs of an issuer, as its discovery document names them.

    Args:
        authorize: authorization endpoint, for browsers.
        token: token endpoint.
        userinfo: claims of a token's holder.
        jwks: its keys.
        logout: end of the session, for browsers.
        revoke: end of a token; empty where there is none.
    """

    authorize: str
    token: str
    userinfo: str
    jwks: str
    logout: str
    revoke: str = ""


@dataclass(frozen=True)
class UserProgram:
    """A program in a pod that manages the issuer's users.

    It reads one JSON object, `{"action": "list"}` or `without_group`, or `add`, `invite`, `disable` or `remove` with
    `name`; `add` also has `email`, `tenants` and `principal_investigator_of`, both `add` and `invite` the `password`
    for the first login, and `disable` has `dry_run`. It prints one: `{}`, `{"problem": "why not"}`,
    `{"users": [{"name", "email", "tenants", "principal_investigator_of", "enabled", "password"}]}`, or
    `{"names": ["carol"]}` of the enabled users who are in no group.

    Args:
        namespace: of the Deployment.
        deployment: name of the Deployment.
        command: to run in its container.
    """

    namespace: str
    deployment: str
    command: tuple[str, ...]


@dataclass(frozen=True)
class Issuer:
    """An issuer in the cluster.

    Args:
        url: the `iss` claim, where users reach it.
        public: where browsers and operators reach it.
        internal: where pods reach it.
        client: id of the client that operators and checks use, by the client credentials grant.
        client_secret: name of the site's secret with that client's.
        scope: of a token request, to the audience that the token is for: a format with `{audience}`.
        pods: labels of the pods that serve `internal`, for NetworkPolicies.
        namespace: of those pods.
        users: what manages its users, for `strata users`; None where it has none.
        signing_key: name of the site's secret with the key (PEM) that signs tokens; empty where it is not Strata's.
    """

    url: str
    public: Endpoints
    internal: Endpoints
    client: str
    client_secret: str = field(repr=False)
    scope: str
    pods: Mapping[str, str]
    namespace: str
    users: UserProgram | None = None
    signing_key: str = ""


@dataclass(frozen=True, kw_only=True)
class IssuerEndpoints:
    """How pods and browsers reach the site's issuer.

    Args:
        issuer: the `iss` claim of the tokens.
        public: URLs that browsers are sent to: `authorize` and `logout`.
        internal: URLs that pods call: `token`, `userinfo`, `jwks`; as `public` for an external issuer.
        ca: PEM of the CA for `internal`; None: the image's CAs, or plain HTTP inside the cluster.
        ports: TCP ports outside of the cluster that `internal` is on; empty for an issuer in the cluster.
        pods: labels of the pods that serve `internal` on the port `http`; empty for an external issuer.
        namespace: of those pods; empty for an external issuer.
    """

    issuer: str
    public: Endpoints
    internal: Endpoints
    ca: str | None = None
    ports: tuple[int, ...] = ()
    pods: Mapping[str, str] = field(default_factory=dict)
    namespace: str = ""


def issuer_url(site: Site) -> str | None:
    """The `iss` claim of the tokens that the site accepts; None for a site without an issuer."""
    external, own = site.platform.services.external_issuer, issuer(site)
    return external.url if external is not None else own.url if own is not None else None


def issuer_findings(site: Site, key: KeyPath) -> Iterator[Finding]:
    """A finding where the site has no issuer."""
    if issuer_url(site) is not None:
        return
    own = [service.key for service in services() if service.issuer is not None]
    names = " or ".join(["an external_issuer", *own])
    example = "".join(f"{name}: {{}}, or " for name in own)
    fix = f"below services: {example}external_issuer: {{url: https://…}}"
    reads: tuple[KeyPath, ...] = tuple(("platform", "services", name) for name in ("external_issuer", *own))
    yield Finding(key, f"needs {names}", fix, reads)


def required_issuer(site: Site) -> Issuer:
    """The site's own issuer.

    Raises:
        LookupError: it has none.
    """
    own = issuer(site)
    if own is None:
        raise LookupError(f"site {site.name} has no issuer; validation refuses that")
    return own


def external_ca(context: ServiceContext[Any]) -> str | None:
    """PEM of the external issuer's authority, None for a public one.

    Raises:
        UserError: the file cannot be read.
    """
    external = context.site.platform.services.external_issuer
    if external is None or external.ca_file is None:
        return None
    return context.read(f"{KEY}.ca_file", Path(external.ca_file))


def outside_ports(*urls: str | None) -> tuple[int, ...]:
    """TCP ports of URLs."""
    return tuple(sorted({urlsplit(url).port or HTTPS for url in urls if url is not None}))


def endpoints(context: ServiceContext[Any]) -> IssuerEndpoints:
    """URLs of the site's issuer; of an external one by its settings, the others by its discovery document.

    Raises:
        UserError: the external issuer's authority cannot be read, or its discovery document not be fetched.
    """
    external = context.site.platform.services.external_issuer
    if external is None:
        own = required_issuer(context.site)
        return IssuerEndpoints(
            issuer=own.url, public=own.public, internal=own.internal, pods=own.pods, namespace=own.namespace
        )
    file = None if external.ca_file is None else str(context.site_file.parent / external.ca_file)
    public = _external_endpoints(external, file)
    ports = outside_ports(external.url, public.token, public.userinfo, public.jwks, public.revoke or None)
    return IssuerEndpoints(issuer=external.url, public=public, internal=public, ca=external_ca(context), ports=ports)


def _external_endpoints(external: ExternalIssuer, ca_file: str | None) -> Endpoints:
    given = external.endpoints
    named = {
        "authorize": given.authorize,
        "token": given.token,
        "userinfo": given.userinfo,
        "jwks": external.jwks_url,
        "logout": given.logout,
    }
    revoke = given.revoke
    if None in named.values():
        # where there is no end of the session, the issuer's own page is the best that can be shown
        discovered = {"logout": external.url, **_discover(external.url, ca_file)}
        revoke = revoke or discovered.get("revoke")
        named = {key: url or discovered.get(key) for key, url in named.items()}
    if missing := sorted(key for key, url in named.items() if url is None):
        raise UserError(
            f"{KEY}: {external.url}{DISCOVERY} names no {', '.join(missing)} endpoint",
            fix=f"{KEY}.endpoints: {{{missing[0]}: https://…}}",
        )
    return Endpoints(**{key: str(url) for key, url in named.items()}, revoke=revoke or "")


@cache
def _discover(url: str, ca_file: str | None) -> dict[str, str]:
    """Endpoints that a discovery document names."""
    import requests  # noqa: PLC0415  # every command loads this module, and few ask an issuer

    words = {
        "authorize": "authorization_endpoint",
        "token": "token_endpoint",
        "userinfo": "userinfo_endpoint",
        "jwks": "jwks_uri",
        "logout": "end_session_endpoint",
        "revoke": "revocation_endpoint",
    }
    try:
        answer = requests.get(url.rstrip("/") + DISCOVERY, timeout=DISCOVERY_SECONDS, verify=ca_file or True)
        answer.raise_for_status()
        document = answer.json()
        return {key: str(document[word]) for key, word in words.items() if word in document}
    except (requests.RequestException, ValueError, TypeError) as error:
        raise UserError(
            f"{KEY}: the discovery document of {url} cannot be read: {error}",
            fix=f"make it reachable from here, or name its URLs in {KEY}.jwks_url and {KEY}.endpoints",
        ) from error
