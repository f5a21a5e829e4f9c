"""Room in tenants' quotas for pods that run in a namespace of their service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from strata.catalogue.need import Need
from strata.catalogue.service import ServiceContext, Values

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
