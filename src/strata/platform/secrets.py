"""The Kubernetes Secrets of a site's services: applied before their releases, whose values only name them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

from strata.access.kubectl import Unanswered, cluster_command, kubectl_json
from strata.catalogue.service import fingerprint
from strata.catalogue.site import installed
from strata.errors import UserError
from strata.platform.releases import PlatformState, service_context
from strata.site.context import SiteContext
from strata.site.outputs import ImageOutputs

LABELS = {"app.kubernetes.io/managed-by": "strata"}
SELECTOR = ",".join(f"{key}={value}" for key, value in LABELS.items())
FINGERPRINT = "strata.dev/fingerprint"
"""Annotation: of the data that Strata applied; other data beside it was changed by somebody else."""
APPLY = ("apply", "--server-side", "--force-conflicts", "--field-manager=strata", "--filename", "-")
SecretKey = tuple[str, str]
"""Namespace and name."""


def platform_state(context: SiteContext) -> PlatformState:
    """What the values of a site's releases are made from."""
    images = context.image_outputs or ImageOutputs(images={})
    return PlatformState(context.site, context.site_file, context.cloud_outputs, images, context.secrets)


def secret_manifests(state: PlatformState, services: Iterable[str] | None = None) -> dict[SecretKey, dict[str, Any]]:
    """The Secrets of a site's services.

    Args:
        state: of the platform.
        services: names of those that are looked at; all of the site's by default.
    """
    found = {}
    for service in installed(state.site):
        if services is not None and service.name not in services:
            continue
        context = service_context(service, state)
        data = context.secret_data()
        if data:
            found[service.namespace, service.secret_name] = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {
                    "name": service.secret_name,
                    "namespace": service.namespace,
                    "labels": {**LABELS, "app.kubernetes.io/instance": service.name},
                    "annotations": {FINGERPRINT: fingerprint(state.secrets, data)},
                },
                "type": "Opaque",
                "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
            }
    return found


def live_secrets(context: SiteContext) -> dict[SecretKey, dict[str, Any]]:
    """The Secrets that Strata applied.

    Raises:
        Unanswered: the cluster does not answer.
    """
    listed = kubectl_json(context, "get", "secrets", "--all-namespaces", f"--selector={SELECTOR}")
    return {(s["metadata"]["namespace"], s["metadata"]["name"]): s for s in listed["items"]}


def apply_secrets(context: SiteContext) -> list[str]:
    """Creates the Secrets that are missing, and updates those that differ.

    Returns:
        Namespace and name of each that changed.

    Raises:
        UserError: the cluster does not answer, or refuses one.
    """
    try:
        live = live_secrets(context)
        changed = {k: s for k, s in secret_manifests(platform_state(context)).items() if _differs(s, live.get(k))}
        for key, secret in changed.items():
            # applying leaves entries that others added
            if key in live and set(live[key].get("data", {})) - set(secret["data"]):
                _delete(context, key)
        if changed:
            namespaces = [
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                for name in sorted({namespace for namespace, _ in changed})
            ]
            items = {"apiVersion": "v1", "kind": "List", "items": [*namespaces, *changed.values()]}
            cluster_command(context, "kubectl", *APPLY, text=json.dumps(items))
    except Unanswered as error:
        raise _unanswered(context, error) from None
    return [f"{namespace}/{name}" for namespace, name in changed]


def remove_secrets(context: SiteContext) -> list[str]:
    """Deletes the Secrets of services that the site no longer has.

    Returns:
        Namespace and name of each.

    Raises:
        UserError: the cluster does not answer.
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


def _differs(wanted: Mapping[str, Any], live: Mapping[str, Any] | None) -> bool:
    if live is None or live.get("data", {}) != wanted["data"]:
        return True
    return any(
        live["metadata"].get(kind, {}).get(key) != value
        for kind in ("labels", "annotations")
        for key, value in wanted["metadata"][kind].items()
    )


def _delete(context: SiteContext, key: SecretKey) -> None:
    namespace, name = key
    cluster_command(context, "kubectl", "delete", "secret", name, f"--namespace={namespace}", "--ignore-not-found")


def _unanswered(context: SiteContext, error: Unanswered) -> UserError:
    return UserError(f"the cluster does not answer: {error}", fix=f"strata status {context.site.name}")
