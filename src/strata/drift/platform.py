"""Drift of the platform's objects: what the cluster has, compared with each release's manifest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from strata.access.commands import ANSWER_SECONDS
from strata.access.helm import all_releases
from strata.access.helm_storage import StoredRelease
from strata.access.kubectl import Unanswered, kubectl_json
from strata.drift.additions import removable, remove_additions
from strata.drift_model import ABSENT, MISSING, Drift
from strata.errors import UserError
from strata.layers import Layer
from strata.observe.workloads import SCALED_BY
from strata.platform.release_secrets import is_as_applied, live_secrets, platform_state, secret_manifests
from strata.platform.releases import releases
from strata.site.context import SiteContext

FIELD_MANAGER = "helm"
_DEPLOYED = ("deployed", "failed")
"""Status of releases that have objects: what an interrupted helm left is the next `up`'s."""
_IGNORED = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink")


def deployed_releases(context: SiteContext) -> list[StoredRelease]:
    """The releases of the site that are deployed, by name.

    Raises:
        Unanswered: the cluster does not respond.
    """
    keys = {(release.namespace, release.name) for release in releases(context.site)}
    deployed = [
        release for key, release in all_releases(context).items() if key in keys and release.status in _DEPLOYED
    ]
    return sorted(deployed, key=lambda release: (release.name, release.namespace))


def objects_drift(context: SiteContext) -> list[Drift]:
    """Fields of the releases' objects that were changed outside Strata, and objects that are gone.

    Raises:
        Unanswered: the cluster does not respond.
    """
    if context.site.cluster is None:
        return []
    deployed = deployed_releases(context)
    return [*release_drift(context, deployed), *secrets_drift(context, [release.name for release in deployed])]


def secrets_drift(context: SiteContext, deployed: Iterable[str]) -> list[Drift]:
    """Secrets of deployed releases that are gone or hold something that Strata did not apply.

    One that has been rotated since is not drift: the next `up` applies it.

    Raises:
        Unanswered: the cluster does not respond.
    """
    live = live_secrets(context)
    drifts = []
    for key, manifest in secret_manifests(platform_state(context), deployed).items():
        secret = live.get(key)
        if secret is not None and is_as_applied(context, secret):
            continue
        label = f"release {manifest['metadata']['labels']['app.kubernetes.io/instance']}: {_label(manifest)}"
        there = None if secret is None else {"kind": "Secret", "data": secret.get("data", {})}
        drifts += [
            Drift(layer=Layer.PLATFORM, object=label, property=path, wanted=want, found=is_now)
            for path, want, is_now in differences({"kind": "Secret", "data": manifest["data"]}, there)
        ]
    return drifts


def release_drift(context: SiteContext, deployed: Sequence[StoredRelease]) -> list[Drift]:
    """Drift of the objects of releases: the server reports, dry, what applying their manifests would change.

    All objects go to the server at once: a kubectl per release takes longer to start than to compare.

    Args:
        context: the site.
        deployed: the releases.

    Raises:
        Unanswered: the cluster does not respond, or refuses an object.
    """
    manifests = [_objects(release) for release in deployed]
    owners = {
        key: release.name
        for release, objects in zip(deployed, manifests, strict=True)
        for item in objects
        # the server drops the namespace of an object that has none
        for key in (_key(item), (item["kind"], "", item["metadata"]["name"]))
    }
    if not owners:
        return []
    objects = [item for manifest in manifests for item in manifest]
    seconds = ANSWER_SECONDS * len(deployed)
    live = _live(context, objects, seconds)
    dry = (*apply_arguments(), "--dry-run=server", "--show-managed-fields", "--filename", "-")
    applied = kubectl_json(context, *dry, text=_as_list(_with_live_replicas(objects, live)), seconds=seconds)
    return [
        Drift(
            layer=Layer.PLATFORM,
            object=f"release {owners[_key(desired)]}: {_label(desired)}",
            property=path,
            wanted=want,
            found=is_now,
        )
        for desired in _items(applied)
        for path, want, is_now in (
            *differences(desired, live.get(_key(desired))),
            # a value that was added may be a secret
            *((addition.path, ABSENT, f"added by {addition.manager}") for addition in removable(context, desired)),
        )
    ]


def _objects(release: StoredRelease) -> list[dict[str, Any]]:
    """The objects of a release, each with its namespace, which helm leaves out; kubectl takes one for all or none."""
    manifests = release.objects()
    for item in manifests:
        item["metadata"].setdefault("namespace", release.namespace)
    return manifests


def _live(
    context: SiteContext, objects: Sequence[dict[str, Any]], seconds: float = ANSWER_SECONDS
) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Those of the objects that exist, as the cluster has them."""
    get = ("get", "--ignore-not-found", "--filename", "-")
    return {_key(item): item for item in _items(kubectl_json(context, *get, text=_as_list(objects), seconds=seconds))}


def _with_live_replicas(
    objects: Iterable[dict[str, Any]], live: Mapping[tuple[str, str, str], Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """The objects; where a service sets the replicas, as many as there are."""
    for item in objects:
        there = live.get(_key(item))
        if there is not None and SCALED_BY in (item["metadata"].get("annotations") or {}):
            yield {**item, "spec": {**item["spec"], "replicas": there["spec"]["replicas"]}}
        else:
            yield item


def _as_list(objects: Iterable[Mapping[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def repair_releases(context: SiteContext) -> list[str]:
    """Applies the manifest of each release with drift again and removes what was added by hand to its objects.

    Returns:
        What was repaired, one text per object and property.

    Raises:
        UserError: the cluster does not respond, or refuses an object.
    """
    try:
        drift = objects_drift(context)
        changed = {d.object.partition(":")[0].removeprefix("release ") for d in drift}
        for release in deployed_releases(context) if changed else []:
            if release.name in changed:
                objects = _objects(release)
                text = _as_list(_with_live_replicas(objects, _live(context, objects)))
                applied = kubectl_json(
                    context, *apply_arguments(), "--show-managed-fields", "--filename", "-", text=text
                )
                for item in _items(applied):
                    remove_additions(context, item)
    except Unanswered as error:
        raise UserError(f"the cluster does not respond: {error}", fix=f"strata status {context.site.name}") from None
    return [f"{d.object}: {d.property} was {d.found}, is {d.wanted}" for d in drift]


def apply_arguments() -> tuple[str, ...]:
    """Of `kubectl apply` as helm's own field manager, so that the next upgrade finds no conflict."""
    return ("apply", "--server-side", "--force-conflicts", f"--field-manager={FIELD_MANAGER}")


def differences(desired: Mapping[str, Any], actual: Mapping[str, Any] | None) -> Iterator[tuple[str, str, str]]:
    """Property path, desired and actual value of each field that differs; bookkeeping of the server left out."""
    if actual is None:
        yield "state", "present", MISSING
        return
    left, right = dict(_flat(desired)), dict(_flat(actual))
    secret = desired.get("kind") == "Secret"
    for path in sorted(left.keys() | right.keys()):
        if left.get(path) != right.get(path):
            hidden = secret and path.startswith(("data", "stringData"))
            yield (
                path,
                "(secret)" if hidden else left.get(path, MISSING),
                "(another)" if hidden else right.get(path, MISSING),
            )


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if path == "" and key == "status":
                continue
            if path == "metadata" and key in _IGNORED:
                continue
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            name = inner.get("name", number) if isinstance(inner, Mapping) else number
            yield from _flat(inner, f"{path}[{name}]")
    else:
        yield path, str(value)


def _items(answer: Any) -> list[dict[str, Any]]:
    if not answer:
        return []
    return list(answer["items"]) if answer.get("kind") == "List" else [answer]


def _key(item: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = item["metadata"]
    return str(item["kind"]), str(metadata.get("namespace", "")), str(metadata["name"])


def _label(item: Mapping[str, Any]) -> str:
    metadata = item["metadata"]
    where = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{item['kind']} {where}{metadata['name']}"
