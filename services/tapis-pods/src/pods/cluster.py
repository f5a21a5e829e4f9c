"""What the reconciler does in Kubernetes; each action may be repeated."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
from lightkube import Client
from lightkube.codecs import from_dict
from lightkube.core.decoders import decode_watch_event
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import Status
from lightkube.resources.core_v1 import Pod, Service
from lightkube.resources.networking_v1 import Ingress

from pods.logs import TAIL_LINES, kubernetes_configuration, tail
from pods.objects import CONTAINER, GRACE_SECONDS, LABELS, MANAGER, POD_LABEL, RUN_ANNOTATION, Manifest, object_name
from pods.routing import GROUP, VERSION

SERVICE = "Service"
PUBLISHED: dict[str, Any] = {
    "IngressRouteTCP": create_namespaced_resource(GROUP, VERSION, "IngressRouteTCP", "ingressroutetcps"),
    "Ingress": Ingress,
    "Middleware": create_namespaced_resource(GROUP, VERSION, "Middleware", "middlewares"),
    "MiddlewareTCP": create_namespaced_resource(GROUP, VERSION, "MiddlewareTCP", "middlewaretcps"),
    SERVICE: Service,
}
"""Kinds of objects beside the Pod, in the order in which they are removed."""
WATCH_SECONDS = 240
FORBIDDEN, NOT_FOUND = 403, 404
_QUOTA = re.compile(r"exceeded quota|status unknown for quota")
_RIGHTS = re.compile(r" cannot [a-z]+ resource ")


class Published(NamedTuple):
    """An object beside the Pod.

    Args:
        kind: of Kubernetes.
        name: of the object.
        run: that it belongs to; empty if it names none.
    """

    kind: str
    name: str
    run: str

    @classmethod
    def of(cls, manifest: Manifest) -> Published:
        """What it will be once it is applied."""
        metadata = manifest["metadata"]
        return cls(manifest["kind"], metadata["name"], metadata["annotations"][RUN_ANNOTATION])


class Refused(Exception):
    """Kubernetes refuses an object as it is; the message gives the reason."""


class OverQuota(Exception):
    """The tenant's quota has no room now; the message shows what is used."""


class Cluster:
    """The API server, in the tenants' namespaces; threads may share it.

    Every method raises ApiError or httpx2.HTTPError where the server does not do as asked.
    """

    def __init__(self, kubeconfig: Path | None) -> None:
        _describe_kinds()
        self._client = Client(config=kubernetes_configuration(kubeconfig), field_manager=MANAGER)

    def pods(self, tenant: str) -> dict[str, Pod]:
        """By pod id."""
        # one by another name is none of ours: members may label their own pods as they like
        return {pod_id: item for pod_id, item in self._listed(Pod, tenant) if item.metadata.name == object_name(pod_id)}

    def published(self, tenant: str) -> dict[str, set[Published]]:
        """What there is beside the Pods, by pod id."""
        by_pod: dict[str, set[Published]] = {}
        for kind, resource in PUBLISHED.items():
            for pod_id, item in self._listed(resource, tenant):
                if f"{item.metadata.name}-".startswith(f"{object_name(pod_id)}-"):
                    run = (item.metadata.annotations or {}).get(RUN_ANNOTATION, "")
                    by_pod.setdefault(pod_id, set()).add(Published(kind, item.metadata.name, run))
        return by_pod

    def _listed(self, kind: Any, tenant: str) -> Iterator[tuple[str, Any]]:
        for item in self._client.list(kind, namespace=tenant, labels={**LABELS}):
            if pod_id := (item.metadata.labels or {}).get(POD_LABEL):
                yield pod_id, item

    def apply(self, manifest: Manifest) -> None:
        """Creates or corrects an object.

        Raises:
            OverQuota, Refused.
        """
        try:
            self._client.apply(from_dict(manifest), force=True)
        except ApiError as error:
            message, code = str(error.status.message), error.status.code
            if code == FORBIDDEN and _QUOTA.search(message):
                raise OverQuota(message) from None
            # rights that are missing are the site's error, not the pod's
            if code in (400, FORBIDDEN, 413, 422) and not _RIGHTS.search(message):
                raise Refused(message) from None
            raise

    def delete_pod(self, tenant: str, pod_id: str) -> None:
        """Ends a Pod; it has a few seconds."""
        with _gone():
            self._client.delete(Pod, object_name(pod_id), namespace=tenant, grace_period=GRACE_SECONDS)

    def unpublish(self, tenant: str, objects: set[Published]) -> None:
        """Removes objects; what refers to another goes before it."""
        for kind, resource in PUBLISHED.items():
            for item in objects:
                if item.kind == kind:
                    with _gone():
                        self._client.delete(resource, item.name, namespace=tenant)

    def log(self, tenant: str, pod_id: str) -> str:
        """The end of a Pod's log; empty where it has none."""
        try:
            lines = self._client.log(object_name(pod_id), namespace=tenant, container=CONTAINER, tail_lines=TAIL_LINES)
            return tail(list(lines))
        except ApiError as error:
            # 400: the container has not started; 404, 500, 502: its node is gone
            if error.status.code in (400, NOT_FOUND, 500, 502):
                return ""
            raise

    def changes(self, tenant: str) -> Iterator[None]:
        """Something happened to a Pod; ends after a while."""
        for _ in self._client.watch(Pod, namespace=tenant, labels={**LABELS}, server_timeout=WATCH_SECONDS):
            yield


def _describe_kinds() -> None:
    """Makes msgspec's descriptions of what several threads decode.

    msgspec 0.22.0 makes them at first use, and a second thread that comes meanwhile reads a half of one: SIGSEGV.
    """
    for kind in (Pod, Status):
        kind.from_dict({})
    decode_watch_event(b'{"type": "ADDED", "object": {}}')


@contextlib.contextmanager
def _gone() -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        if error.status.code != NOT_FOUND:
            raise


ERRORS = (ApiError, httpx2.HTTPError, OSError)
"""Of a server that is away or refuses; the next pass tries again."""
