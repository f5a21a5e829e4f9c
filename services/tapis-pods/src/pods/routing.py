"""What leads a pod's names to it: objects of the ingress controller, Traefik, which ends TLS by the site's certificate.

Every name comes from checked labels, so that no text of a user is part of a rule.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_network

from pods import response_headers
from pods.objects import Manifest, metadata, object_name
from pods.settings import Tenant
from pods.spec import DEFAULT, Networking, PodSpec, label

GROUP = "traefik.io"
VERSION = "v1alpha1"
POSTGRES_TLS = "pods-postgres"
"""TLSOption of the chart pods-tenant: psql from 17 on names a protocol that Traefik refuses by default."""
MIDDLEWARES = "traefik.ingress.kubernetes.io/router.middlewares"
ASKED_WITH = (
    "Accept", "Authorization", "Cookie", "Origin", "Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site",
    "X-Tapis-Token",
)  # fmt: skip
"""Headers of a request that decide on it, beside those that Traefik sets (X-Forwarded-Host and others)."""
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)+")


@dataclass(frozen=True)
class Routes:
    """How names are made.

    Args:
        domain: below which they are.
        ingress_class: of http names.
        certificate_resolver: that gets a certificate for each tcp and postgres name; empty: the site's covers them.
        forward_auth_url: of the API, which decides on each request to an entry with a login.
    """

    domain: str
    ingress_class: str
    certificate_resolver: str = ""
    forward_auth_url: str = ""

    def manifests(self, pod_id: str, run: int, spec: PodSpec, tenant: Tenant) -> list[Manifest]:
        """Objects of all entries of `networking` that have a name, middlewares before what refers to them.

        Raises:
            ValueError: a name that DNS cannot have.
        """
        entries = [(key, entry) for key, entry in sorted(spec.networking.items()) if entry.published]
        result: list[Manifest] = []
        for key, entry in entries:
            # the id has no hyphen, so no two entries of any pods have the same
            name = object_name(pod_id) if key == DEFAULT else f"{object_name(pod_id)}-{key}"
            common = metadata(pod_id, tenant, run, name)
            host = self._host(pod_id, key)
            middlewares: list[Manifest] = []
            if entry.ip_allow_list:
                middlewares.append(_allow_list(common, entry))
            if entry.tapis_auth:
                # keys have no hyphen, so no other entry's object has the name
                own = metadata(pod_id, tenant, run, f"{object_name(pod_id)}-{key}-login")
                middlewares.append(self._login(own, entry))
            names = [middleware["metadata"]["name"] for middleware in middlewares]
            build = self._ingress if entry.protocol == "http" else self._tcp
            result += [*middlewares, build(common, host, object_name(pod_id), entry, names)]
        return sorted(result, key=lambda manifest: not manifest["kind"].startswith("Middleware"))

    def _host(self, pod_id: str, key: str) -> str:
        host = f"{label(pod_id, key)}.{self.domain}"
        if not _NAME.fullmatch(host):
            raise ValueError(f"networking: {host!r} is not a name that DNS can have")
        return host

    def _login(self, common: Manifest, entry: Networking) -> Manifest:
        if not self.forward_auth_url:
            raise ValueError("tapis_auth is not available: no service decides on requests")
        body = {
            "address": self.forward_auth_url,
            "trustForwardHeader": False,
            "authRequestHeaders": list(ASKED_WITH),
            # Traefik removes what the browser sent under these names, and sets what the service answers
            "authResponseHeadersRegex": response_headers.pattern(entry.tapis_auth_response_headers),
        }
        return _traefik("Middleware", common, {"forwardAuth": body})

    def _ingress(
        self, common: Manifest, host: str, service: str, entry: Networking, middlewares: Sequence[str]
    ) -> Manifest:
        if middlewares:
            references = ",".join(f"{common['namespace']}-{name}@kubernetescrd" for name in middlewares)
            common = common | {"annotations": {**common["annotations"], MIDDLEWARES: references}}
        backend = {"service": {"name": service, "port": {"number": entry.port}}}
        rule = {"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
        body = {"ingressClassName": self.ingress_class, "rules": [rule]}
        return {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": common, "spec": body}

    def _tcp(
        self, common: Manifest, host: str, service: str, entry: Networking, middlewares: Sequence[str]
    ) -> Manifest:
        route: Manifest = {"match": f"HostSNI(`{host}`)", "services": [{"name": service, "port": entry.port}]}
        if middlewares:
            route["middlewares"] = [{"name": name} for name in middlewares]
        tls: Manifest = {}
        if self.certificate_resolver:
            tls["certResolver"] = self.certificate_resolver
        if entry.protocol == "postgres":
            tls["options"] = {"name": POSTGRES_TLS}
        return _traefik("IngressRouteTCP", common, {"routes": [route], "tls": tls})


def _allow_list(common: Manifest, entry: Networking) -> Manifest:
    kind = "Middleware" if entry.protocol == "http" else "MiddlewareTCP"
    ranges = [str(ip_network(network)) for network in entry.ip_allow_list]
    return _traefik(kind, common, {"ipAllowList": {"sourceRange": ranges}})


def _traefik(kind: str, common: Manifest, spec: Manifest) -> Manifest:
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": common, "spec": spec}
