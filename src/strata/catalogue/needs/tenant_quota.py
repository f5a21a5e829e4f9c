"""Room in tenants' quotas for pods that run in a namespace of their service."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from strata.catalogue.needs.base import Need

if TYPE_CHECKING:
    from strata.catalogue.service import ServiceContext, Values
    from strata.models.site import Site


RESERVATION = "strata.dev/reservation"
"""Label of a reservation, whose value is its purpose; also its scheduling gate."""


@dataclass(frozen=True)
class TenantQuota(Need["Values"]):
    """Reservations in tenants' namespaces: pods that are never scheduled and request what a pod elsewhere uses, so that
    Kubernetes' ResourceQuota counts both together. helm/cluster-base has the policy that keeps members from them.

    Args:
        pods: what the reservations are for. Servers may delete the reservations of jobs to get their room.
        namespace: of the service.
        account: its service account that makes them.
    """

    pods: Literal["server", "job"]
    namespace: str
    account: str

    def provide(self, context: ServiceContext[Any]) -> Values:  # noqa: ARG002  # the same at every site
        """A reservation, without name, image and resources."""
        container = {
            "name": "reservation",
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"labels": {"app.kubernetes.io/part-of": "strata", RESERVATION: self.pods}},
            "spec": {
                "schedulingGates": [{"name": RESERVATION}],
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65534,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [container],
            },
        }


def accounts(site: Site) -> Iterator[Values]:
    """Service accounts that make reservations, as subjects of a RoleBinding."""
    from strata.catalogue.site import needed

    for _, need in needed(site, TenantQuota):
        yield {"kind": "ServiceAccount", "name": need.account, "namespace": need.namespace}
