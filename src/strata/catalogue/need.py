"""A need, and what it is answered with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from strata.models.declared_hosts import declared_roles
from strata.models.finding import Finding
from strata.models.key_path import INSTANCES, MACHINES, KeyPath
from strata.models.site import Site

if TYPE_CHECKING:
    from strata.catalogue.service import ServiceContext

Provided_co = TypeVar("Provided_co", covariant=True)


@dataclass(frozen=True)
class SecretReference:
    """Where a chart finds a secret: the Secret in the release's namespace, and the key in it."""

    name: str
    key: str

    @property
    def value(self) -> dict[str, str]:
        """As the charts take it."""
        return {"name": self.name, "key": self.key}


class Need(ABC, Generic[Provided_co]):
    """One word of the vocabulary; the words are its subclasses in strata.catalogue.needs, frozen dataclasses."""

    def findings(self, site: Site, key: KeyPath) -> Iterator[Finding]:  # noqa: ARG002  # for the subclasses
        """What the site is missing to provide it.

        Args:
            site: the site.
            key: of the service in the site file.
        """
        return iter(())

    def secret_data(self, context: ServiceContext[Any]) -> Mapping[str, str]:  # noqa: ARG002  # for the subclasses
        """Entries of the service's Kubernetes Secret."""
        return {}

    @property
    def release_namespace(self) -> str | None:
        """Namespace of the service's release in place of strata-system, if this need makes one."""
        return None

    @abstractmethod
    def provide(self, context: ServiceContext[Any]) -> Provided_co:
        """What the service's values name."""


def pods_peer(namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """Peer of a NetworkPolicy: pods of a namespace with these labels."""
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "podSelector": {"matchLabels": dict(labels)},
    }


def role_findings(site: Site, key: KeyPath, role: str, reason: str) -> Iterator[Finding]:
    """A finding where no host of the site has a role."""
    if role not in declared_roles(site):
        why = f"needs a host with the role {role} ({reason}), and there is none"
        yield Finding(key, why, f"give a host the role {role}", (INSTANCES, MACHINES))
