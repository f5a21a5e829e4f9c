"""The ingress controller: Traefik behind the load balancer of the hosts layer."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path

from strata.catalogue.needs import Metrics
from strata.catalogue.needs.hostname import CERTIFICATE_RESOLVER, INGRESS_CLASS, INGRESS_NAMESPACE
from strata.catalogue.service import Values, image
from strata.image_reference import ImageReference
from strata.inventory.port_numbers import INGRESS
from strata.models.platform import LETS_ENCRYPT, IngressCertificate
from strata.models.site import Site
from strata.platform.storage_class import NAME
from strata.site.host_list import hosts_with
from strata.site.outputs import CloudOutputs
from strata.toolchain import load_versions

INGRESS_RELEASE = "traefik"
CERTIFICATE_SECRET = "site-certificate"  # noqa: S105 the name of a Secret, not one
"""kubernetes.io/tls Secret in the controller's namespace, applied by strata.platform.release_secrets."""
HSTS = "hsts"
STORAGE = "/data/acme.json"
"""Account and certificates, where the controller requests them."""
AUTHORITY, AUTHORITY_KEY, AUTHORITY_DIRECTORY = "acme-authority", "ca.pem", "/acme-authority"
"""ConfigMap with the CA of an ACME directory, its key, and where the controller reads it."""
PORT, PING_PORT = 8443, 8080
METRICS = Metrics(9100)
"""The chart annotates the pods itself."""
WITHOUT_QUERIES = {"RequestPath": "drop", "RequestLine": "drop"}
"""Fields of the access log: Traefik logs a path with its query, where presigned URLs and logins have secrets."""


def acme_authority(site: Site, site_file: Path) -> str | None:
    """Certificate (PEM) of the CA of the site's ACME directory; None for the public CAs, and without one.

    Args:
        site: the model.
        site_file: files that it names are relative to it; loading it has found them.
    """
    certificate = site.platform.ingress.certificate
    if certificate.source != "acme" or certificate.ca_file is None:
        return None
    return (site_file.parent / certificate.ca_file).read_text(encoding="ascii")


def values(
    site: Site, outputs: CloudOutputs | None, images: Mapping[str, ImageReference], authority: str | None = None
) -> Values:
    """Values of the chart traefik.

    Args:
        site: the model.
        outputs: of the cloud layer, with the load balancers' addresses.
        images: in the site's registry.
        authority: certificate (PEM) of the CA that signed that of an ACME directory; None for the public CAs.
    """
    balancers = [host.address for host in hosts_with("load_balancer", site, outputs)]
    trusted = [f"{a}/{ipaddress.ip_address(a).max_prefixlen}" for a in balancers]
    certificate = site.platform.ingress.certificate
    return {
        "image": _image(images),
        "versionOverride": f"v{load_versions().tools['traefik'].version}",
        "global": {"checkNewVersion": False, "sendAnonymousUsage": False},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "startupProbe": {"httpGet": {"path": "/ping", "port": PING_PORT}, "periodSeconds": 1, "failureThreshold": 300},
        "readinessProbe": {"initialDelaySeconds": 0, "periodSeconds": 5},
        "ingressClass": {"enabled": True, "isDefaultClass": True, "name": INGRESS_CLASS},
        "providers": {
            "kubernetesCRD": {"enabled": True},
            "kubernetesIngress": {"enabled": True, "publishedService": {"enabled": False}},
        },
        "logs": {"access": {"enabled": True, "format": "json", "fields": {"general": {"names": WITHOUT_QUERIES}}}},
        # a service without pods has no requests of its own, its router does
        "metrics": {"prometheus": {"addRoutersLabels": True}},
        "ports": {
            "traefik": {"port": PING_PORT},
            "metrics": {"port": METRICS.port},
            # the load balancer redirects to https; plain HTTP is not served
            "web": {"expose": {"default": False}},
            "websecure": {
                "port": PORT,
                "nodePort": INGRESS,
                "asDefault": True,
                "proxyProtocol": {"trustedIPs": trusted},
                # uploads may take as long as they need; connections without a request end after 3 minutes
                "transport": {
                    "respondingTimeouts": {"readTimeout": "0s", "writeTimeout": "0s", "idleTimeout": "180s"},
                    # longer than the load balancer needs to notice that the pod ends
                    "lifeCycle": {"requestAcceptGraceTimeout": "6s", "graceTimeOut": "30s"},
                },
                "tls": {
                    "enabled": True,
                    **({"certResolver": CERTIFICATE_RESOLVER} if certificate.source == "acme" else {}),
                },
                "middlewares": [f"{INGRESS_NAMESPACE}-{HSTS}@kubernetescrd"],
            },
        },
        # Local: the client's connection is not forwarded to another node, so that the source address stays
        "service": {"type": "NodePort", "spec": {"externalTrafficPolicy": "Local"}},
        "additionalArguments": [
            "--providers.providersThrottleDuration=200ms",
            # sooner than services end them (uvicorn and Node.js: 5 s): a request that meets that end is answered 502
            "--serversTransport.forwardingTimeouts.idleConnTimeout=3s",
            *(f"--providers.kubernetesingress.ingressendpoint.ip={address}" for address in balancers[:1]),
        ],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "priorityClassName": "system-cluster-critical",
        "podSecurityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "extraObjects": [_hsts(), _network_policy(trusted), *([_authority(authority)] if authority else [])],
        **_affinity(site),
        **_certificate(certificate, own_authority=authority is not None),
    }


def _affinity(site: Site) -> Values:
    """Not on GPU nodes with taints. A taint alone does not end a pod that was started while it was missing."""
    gpu_nodes = site.cluster.gpu_nodes if site.cluster else None
    if gpu_nodes is None or not gpu_nodes.taints or not gpu_nodes.labels:
        return {}
    others = [{"key": key, "operator": "NotIn", "values": [value]} for key, value in gpu_nodes.labels.items()]
    required = {"nodeSelectorTerms": [{"matchExpressions": others}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def _image(images: Mapping[str, ImageReference]) -> Values:
    """The chart has no key for the digest: it is a part of the tag."""
    reference = image(images, "traefik")
    registry, _, repository = reference["repository"].partition("/")
    version = load_versions().tools["traefik"].version
    return {"registry": registry, "repository": repository, "tag": f"v{version}@{reference['digest']}"}


def _certificate(certificate: IngressCertificate, *, own_authority: bool) -> Values:
    """Where the default certificate comes from, and the kind of workload that this permits."""
    if certificate.source != "acme":
        store = {"default": {"defaultCertificate": {"secretName": CERTIFICATE_SECRET}}}
        return {"deployment": {"kind": "DaemonSet"}, "tlsStore": store}
    account = {"email": certificate.email, "caServer": certificate.directory or LETS_ENCRYPT}
    resolver: Values = {**account, "storage": STORAGE, "tlsChallenge": True}
    further: Values = {}
    if own_authority:
        resolver["caCertificates"] = f"{AUTHORITY_DIRECTORY}/{AUTHORITY_KEY}"
        further["volumes"] = [{"name": AUTHORITY, "mountPath": AUTHORITY_DIRECTORY, "type": "configMap"}]
    if certificate.storage_class is not None:
        # not over NFS, so that the volume may be attached to one node at a time: a second pod would wait for it
        further["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
    # challenges are answered, and certificates kept, by one pod alone
    return {
        "deployment": {"kind": "Deployment", "replicas": 1},
        "persistence": {"enabled": True, "size": "128Mi", "storageClass": certificate.storage_class or NAME},
        "podSecurityContext": {"seccompProfile": {"type": "RuntimeDefault"}, "fsGroup": 65532},
        "certificatesResolvers": {CERTIFICATE_RESOLVER: {"acme": resolver}},
        **further,
    }


def _authority(certificate: str) -> Values:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": AUTHORITY},
        "data": {AUTHORITY_KEY: certificate},
    }


def _hsts() -> Values:
    return {
        "apiVersion": "traefik.io/v1alpha1",
        "kind": "Middleware",
        "metadata": {"name": HSTS},
        "spec": {"headers": {"stsSeconds": 31536000}},
    }


def _network_policy(balancers: list[str]) -> Values:
    """Requests come from the load balancer only; they may go to any pod, whose own policies decide."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "traefik"},
        "spec": {
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": "traefik"}},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [{"ipBlock": {"cidr": c}} for c in balancers], "ports": [{"port": PORT, "protocol": "TCP"}]},
                {"from": list(METRICS.access.clients), "ports": [{"port": METRICS.port, "protocol": "TCP"}]},
                # health checks only
                {"ports": [{"port": PING_PORT, "protocol": "TCP"}]},
            ],
        },
    }
