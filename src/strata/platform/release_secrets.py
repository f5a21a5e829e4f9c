"""The Secrets of a site's releases: applied before the releases, whose values only name them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from strata.access.kubectl import Unanswered, kubectl, kubectl_json
from strata.catalogue.needs.hostname import INGRESS_NAMESPACE
from strata.catalogue.needs.namespace import Namespace, TenantNamespaces
from strata.catalogue.service import fingerprint
from strata.catalogue.site_services import installed, needed
from strata.errors import UserError
from strata.platform.ingress import CERTIFICATE_SECRET, INGRESS_RELEASE
from strata.platform.ingress_certificate import certificate_data
from strata.platform.releases import PlatformState, Release, releases, service_context
from strata.site.context import SiteContext
from strata.site.outputs import ImageOutputs

LABELS = {"app.kubernetes.io/managed-by": "strata"}
SELECTOR = ",".join(f"{key}={value}" for key, value in LABELS.items())
FINGERPRINT = "strata.dev/fingerprint"
"""Annotation: of the data that Strata applied; other data beside it was changed outside Strata."""
APPLY = ("apply", "--server-side", "--force-conflicts", "--field-manager=strata", "--filename", "-")
SecretKey = tuple[str, str]
"""Namespace and name."""


def platform_state(context: SiteContext) -> PlatformState:
    """What the values of a site's releases are made from."""
    images = context.image_outputs or ImageOutputs(images={})
    return PlatformState(context.site, context.site_file, context.cloud_outputs, images, context.secrets)


def secret_manifests(state: PlatformState, names: Iterable[str] | None = None) -> dict[SecretKey, dict[str, Any]]:
    """The Secrets of a site's services, and the certificate of the ingress controller.

    Args:
        state: of the platform.
        names: of the releases that are looked at; all of the site's by default.

    Raises:
        UserError: the operator's certificate or key is unusable.
    """
    chosen = None if names is None else set(names)
    manifests: dict[SecretKey, dict[str, Any]] = {}
    for release, key, data in _service_secrets(state):
        if data and (chosen is None or release in chosen):
            manifests[key] = _manifest(state, release, key, "Opaque", data)
    if (chosen is None or INGRESS_RELEASE in chosen) and (data := certificate_data(state)):
        key = INGRESS_NAMESPACE, CERTIFICATE_SECRET
        manifests[key] = _manifest(state, INGRESS_RELEASE, key, "kubernetes.io/tls", data)
    return manifests


def _service_secrets(state: PlatformState) -> Iterator[tuple[str, SecretKey, Mapping[str, str]]]:
    """Release, key and data of each service's Secret, of those in its other namespaces, and in those of tenants."""
    for service in installed(state.site):
        key = service.namespace_of(state.site), service.secret_name
        yield service.name, key, service_context(service, state).secret_data()
    for service, namespace in needed(state.site, Namespace):
        if namespace.secret is not None:
            key = namespace.name, service.secret_name
            yield service.name, key, namespace.secret(service_context(service, state))
    for service, need in needed(state.site, TenantNamespaces):
        if need.tenant_secret is not None:
            context = service_context(service, state)
            for tenant in state.site.platform.tenants:
                key = tenant.name, need.secret_name
                yield need.release(tenant.name), key, need.tenant_secret(context, tenant)


def _manifest(state: PlatformState, release: str, key: SecretKey, kind: str, data: Mapping[str, str]) -> dict[str, Any]:
    namespace, name = key
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {**LABELS, "app.kubernetes.io/instance": release},
            "annotations": {FINGERPRINT: fingerprint(state.secrets, data)},
        },
        "type": kind,
        "data": {entry: base64.b64encode(value.encode()).decode() for entry, value in data.items()},
    }


def live_secrets(context: SiteContext) -> dict[SecretKey, dict[str, Any]]:
    """The Secrets that Strata applied.

    Raises:
        Unanswered: the cluster does not respond.
    """
    listed = kubectl_json(context, "get", "secrets", "--all-namespaces", f"--selector={SELECTOR}")
    return {(s["metadata"]["namespace"], s["metadata"]["name"]): s for s in listed["items"]}


def apply_secrets(context: SiteContext) -> list[str]:
    """Creates the Secrets that are missing, and updates those that differ.

    Returns:
        Namespace and name of each that changed.

    Raises:
        UserError: the cluster does not respond, or refuses one; the operator's certificate or key is unusable.
    """
    try:
        live = live_secrets(context)
        changed = {k: s for k, s in secret_manifests(platform_state(context)).items() if _differs(s, live.get(k))}
        for key, secret in changed.items():
            # applying leaves entries that others added
            if key in live and set(live[key].get("data", {})) - set(secret["data"]):
                _delete(context, key)
        if changed:
            owners = {release.makes: release for release in releases(context.site)}
            namespaces = [_namespace(name, owners.get(name)) for name in sorted({key[0] for key in changed})]
            items = {"apiVersion": "v1", "kind": "List", "items": [*namespaces, *changed.values()]}
            kubectl(context, *APPLY, text=json.dumps(items))
    except Unanswered as error:
        raise _unanswered(context, error) from None
    return [f"{namespace}/{name}" for namespace, name in changed]


def _namespace(name: str, owner: Release | None) -> dict[str, Any]:
    """A namespace that Secrets need before the releases; Helm accepts one that exists if it is marked as its own."""
    metadata: dict[str, Any] = {"name": name}
    if owner is not None:
        metadata["labels"] = {"app.kubernetes.io/managed-by": "Helm"}
        metadata["annotations"] = {
            "meta.helm.sh/release-name": owner.name,
            "meta.helm.sh/release-namespace": owner.namespace,
        }
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def remove_secrets(context: SiteContext) -> list[str]:
    """Deletes the Secrets that the site no longer has: of removed services, the certificate after a change to ACME.

    Returns:
        Namespace and name of each.

    Raises:
        UserError: the cluster does not respond.
    """
    try:
        orphaned = sorted(live_secrets(context).keys() - secret_manifests(platform_state(context)).keys())
        for key in orphaned:
            _delete(context, key)
    except Unanswered as error:
        raise _unanswered(context, error) from None
    return [f"{namespace}/{name}" for namespace, name in orphaned]


def is_as_applied(context: SiteContext, secret: Mapping[str, Any]) -> bool:
    """Whether a Secret of the cluster holds what Strata applied, now or before a rotation."""
    data = {key: base64.b64decode(value).decode(errors="replace") for key, value in secret.get("data", {}).items()}
    return bool(secret["metadata"].get("annotations", {}).get(FINGERPRINT) == fingerprint(context.secrets, data))


def _differs(desired: Mapping[str, Any], live: Mapping[str, Any] | None) -> bool:
    if live is None or live.get("data", {}) != desired["data"]:
        return True
    return any(
        live["metadata"].get(kind, {}).get(key) != value
        for kind in ("labels", "annotations")
        for key, value in desired["metadata"][kind].items()
    )


def _delete(context: SiteContext, key: SecretKey) -> None:
    namespace, name = key
    kubectl(context, "delete", "secret", name, f"--namespace={namespace}", "--ignore-not-found")


def _unanswered(context: SiteContext, error: Unanswered) -> UserError:
    return UserError(f"the cluster does not respond: {error}", fix=f"strata status {context.site.name}")
