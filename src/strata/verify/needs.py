"""What checks need of a site: the mark `needs`, read from site.yaml alone.

A check is skipped where site.yaml declares nothing of the kind. A check that skips itself although all that it needs is
declared has failed: what the site has was not verified.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from strata.access.backups import ROLE as BACKUP
from strata.catalogue.issuer import issuer_url
from strata.catalogue.published import published
from strata.catalogue.site_needs import databases, namespaces
from strata.catalogue.site_services import issuer
from strata.catalogue.site_volumes import volumes
from strata.cloud.card_placement import MOST_CARDS, countable_kind
from strata.inventory.clients import NFS_ROLES
from strata.models.declared_hosts import declared_roles
from strata.models.gpu_nodes import gpu_nodes
from strata.models.hypervisors import passthrough
from strata.models.site import Site
from strata.platform.nvidia_device_plugin import built_in_kinds
from strata.provider import provider_of
from strata.site.host_list import archived_postgresql, replicated_postgresql
from strata.site.installer_facts import POD_NETWORK, runs_role

needs = pytest.mark.needs
"""`@needs(CLUSTER, TENANTS)`, on a check; `pytestmark = needs(CLOUD)` for all checks of a file."""
EXTERNAL_TOKEN = "external_issuer_token"  # noqa: S105 the name of a secret, not one
INAPPLICABLE = pytest.StashKey[bool]()
"""Of a check that was skipped because the site does not declare what it needs."""


@dataclass(frozen=True)
class Need:
    """Something that site.yaml declares or not.

    Args:
        what: continues "site NAME has no …".
        declared: whether a site declares it; may use nothing but the site.
    """

    what: str
    declared: Callable[[Site], bool]


def role(name: str) -> Need:
    """A host with a role, an instance of the cloud or a machine."""
    return Need(f"host with the role {name}", lambda site: name in declared_roles(site))


def missing(item: pytest.Item, site: Site) -> Need | None:
    """The first need of a check that a site does not declare, those of its file before its own; None if it applies."""
    marks = reversed(list(item.iter_markers("needs")))
    return next((need for mark in marks for need in mark.args if not need.declared(site)), None)


def _with_cards(site: Site, *, cards: bool) -> bool:
    """Whether an instance has a flavor with cards, or one without."""
    if site.cloud is None:
        return False
    flavors = {flavor.name: bool(flavor.accelerators) for flavor in site.cloud.flavors}
    return any(flavors[instance.flavor] == cards for instance in site.cloud.instances)


def _passed_cards(site: Site) -> bool:
    """Whether a flavor has cards of the site's hypervisors, so few on each that a check can request one more."""
    return site.cloud is not None and site.cloud.administrator and countable_kind(site.cloud) is not None


def _counted_cards(site: Site) -> bool:
    """Whether Strata configures nova on hypervisors with cards."""
    cloud = site.cloud
    return cloud is not None and cloud.configures_nova and any(h.accelerators for h in cloud.hypervisors)


def _known_plugin(site: Site) -> bool:
    """Whether a GPU node has cards that pods see through a plugin that the check can read."""
    kinds = {kind for held in gpu_nodes(site).values() for kind in held}
    return any(site.accelerators[kind].compute_capability or kind in built_in_kinds(site) for kind in kinds)


def _makes_aggregates(site: Site) -> bool:
    """Whether Strata creates the host aggregates; who made all flavors placed them."""
    return _lists_hypervisors(site) and site.cloud is not None and not all(f.existing for f in site.cloud.flavors)


def _lists_hypervisors(site: Site) -> bool:
    return site.cloud is not None and site.cloud.administrator and bool(site.cloud.hypervisors)


CLOUD = Need("cloud", lambda site: site.cloud is not None)
ADMINISTRATOR = Need(
    "administrator's credentials of its cloud", lambda site: site.cloud is not None and site.cloud.administrator
)
HYPERVISORS = Need("cloud.hypervisors that its credentials show", _lists_hypervisors)
AGGREGATES = Need("host aggregates of its own: it lists no hypervisors, or all flavors exist", _makes_aggregates)
INSTANCES = Need("instances", lambda site: site.cloud is not None and bool(site.cloud.instances))
FLAVORS = Need("flavors", lambda site: site.cloud is not None and bool(site.cloud.flavors))
CARD_INSTANCES = Need("instance with an accelerator", lambda site: _with_cards(site, cards=True))
PLAIN_INSTANCES = Need("instance without accelerators", lambda site: _with_cards(site, cards=False))
PASSED_CARDS = Need(
    f"flavor with accelerators of hypervisors that its credentials show, fewer than {MOST_CARDS} on each", _passed_cards
)
COUNTED_CARDS = Need(
    "hypervisors with accelerators whose nova Strata configures: `deployment: lab` or `kolla`",
    _counted_cards,
)
OPENSTACK_UNITS = Need(
    "OpenStack services as systemd units: they are in Kolla's containers, or others run them",
    lambda site: bool(provider_of(site).hosts()),
)
PASSTHROUGH = Need("host with the role pci_passthrough", lambda site: bool(passthrough(site)))

CLUSTER = Need("cluster", lambda site: site.cluster is not None)
KINE = Need("cluster.datastore: kine", lambda site: site.cluster is not None and site.cluster.datastore == "kine")
STRATA_NETWORK = Need("pod network of the role pod_network", lambda site: runs_role(site, POD_NETWORK))
GPU_NODES = Need("host with the role gpu_node", lambda site: bool(gpu_nodes(site)))
TAINTED_GPU_NODES = Need(
    "taints of GPU nodes", lambda site: site.cluster is not None and bool(site.cluster.gpu_nodes.taints)
)
POD_CARDS = Need("GPU node whose device plugin is NVIDIA's or Strata's", _known_plugin)
TENANTS = Need("tenants", lambda site: bool(site.platform.tenants))
TENANT_CARDS = Need(
    "tenant with a quota of accelerators",
    lambda site: any(tenant.quota.accelerators for tenant in site.platform.tenants),
)
VOLUMES = Need(
    "volumes on its NFS server that pods may write",
    lambda site: any(not volume.read_only for volume in volumes(site)),
)
TENANT_VOLUMES = Need(
    "tenant with a volume",
    lambda site: any(
        not volume.read_only and volume.namespace in {tenant.name for tenant in site.platform.tenants}
        for volume in volumes(site)
    ),
)
NAMESPACES = Need("service with a namespace of its own", lambda site: bool(namespaces(site)))
ROUTES = Need("published service with a path for checks", lambda site: any(s.health_path for s in published(site)))
SITE_CERTIFICATES = Need(
    "platform.ingress.certificate.source: site", lambda site: site.platform.ingress.certificate.source == "site"
)
SEVERAL_CONTROLLERS = Need(
    "ingress controller on several nodes: with certificates by ACME it is one pod",
    lambda site: site.platform.ingress.certificate.source != "acme",
)

DATABASES = Need("databases", lambda site: bool(databases(site)))
REPLICATED_POSTGRESQL = Need("second PostgreSQL server", replicated_postgresql)
ARCHIVED_POSTGRESQL = Need("archive of PostgreSQL (hosts.backup.postgresql)", archived_postgresql)
BACKUPS = role(BACKUP)
NFS_CLIENTS = Need(
    "NFS exports that one of its hosts may mount",
    lambda site: site.hosts.nfs is not None and bool(declared_roles(site).intersection(NFS_ROLES)),
)
VIRTUAL_ADDRESS = Need("hosts.load_balancer", lambda site: site.hosts.load_balancer is not None)

TOKENS = Need("issuer of tokens", lambda site: issuer_url(site) is not None)
OWN_ISSUER = Need("issuer of its own", lambda site: issuer(site) is not None)


def _own_users(site: Site) -> bool:
    own = issuer(site)
    return own is not None and own.users is not None


def _tokens_for_checks(site: Site) -> bool:
    """Whether there is a token that services accept: of the site's own issuer, or one that the operator provides."""
    if site.platform.services.external_issuer is None:
        return issuer(site) is not None
    return any(secret.name == EXTERNAL_TOKEN for secret in site.secrets)


TOKENS_FOR_CHECKS = Need(
    f"token for checks; if tokens come from outside, provide one by secrets: [{{name: {EXTERNAL_TOKEN}, source: "
    "environment}]",
    _tokens_for_checks,
)
OWN_USERS = Need("users in an issuer of its own", _own_users)
EXTERNAL_ISSUER = Need(
    "platform.services.external_issuer", lambda site: site.platform.services.external_issuer is not None
)
