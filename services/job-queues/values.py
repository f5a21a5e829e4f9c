"""Values of Kueue's chart, of the queues, and of what tenants have in their namespaces."""

from __future__ import annotations

import json
from typing import Any

from strata.catalogue.cluster_login import cluster_login, user_group
from strata.catalogue.issuer import tenant_group
from strata.catalogue.needs.accelerators import toleration
from strata.catalogue.needs.metrics import SCRAPERS
from strata.catalogue.service import ServiceContext, Values
from strata.models.gpu_nodes import KIND_LABEL
from strata.models.platform import Tenant
from strata.models.site import Site
from strata_services.job_queues.shares import CPU, MEMORY, Share, Shares, capacity, cards, divide

CHART = "kueue"
IMAGE = "registry.k8s.io/kueue/kueue"
COHORT = "tenants"
"""All tenants lend to each other."""
FLAVOR = "any"
"""CPUs and memory, which are alike on all nodes."""
UNITS = {CPU: "m", MEMORY: "Mi"}


def controller_values(context: ServiceContext[Any]) -> Values:
    """Of Kueue's chart: jobs in tenants' namespaces are queued whether they name a queue or not."""
    from strata.toolchain import load_versions  # noqa: PLC0415  # every command loads this module

    tenants = [tenant.name for tenant in context.site.platform.tenants]
    names = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": tenants}
    configuration = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": ":8443"},
        "webhook": {"port": 9443},
        "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        "manageJobsWithoutQueueName": True,
        "managedJobsNamespaceSelector": {"matchExpressions": [names]},
        "integrations": {"frameworks": ["batch/job"]},
        "fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]},
    }
    return {
        "controllerManager": {
            "manager": {
                "image": {
                    "repository": IMAGE,
                    "tag": load_versions().charts[CHART].image_tags[IMAGE],
                    "pullPolicy": "IfNotPresent",
                },
                "priorityClassName": "system-cluster-critical",
                "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
            }
        },
        "managerConfig": {"controllerManagerConfigYaml": json.dumps(configuration, indent=2)},
    }


def tenant_values(context: ServiceContext[Any], tenant: Tenant) -> Values:
    """Of helm/job-queue-tenant."""
    login = cluster_login(context.site)
    group = {"kind": "Group", "name": user_group(tenant_group(tenant.name))}
    return {"clusterQueue": tenant.name, "members": [] if login is None else [group]}


def values(context: ServiceContext[Any]) -> Values:
    """Of helm/job-queues."""
    site = context.site
    plain = {name: divide(quotas, capacity(site)[name]) for name, quotas in _plain(site).items()}
    by_kind = {kind: divide(_cards(site, kind), count) for kind, count in cards(site).items()}
    return {
        "flavors": [{"name": FLAVOR}, *(_flavor(site, kind) for kind in by_kind)],
        "cohort": {"name": COHORT, "resourceGroups": _groups(site, plain, by_kind, None)},
        "queues": [
            {"name": tenant.name, "resourceGroups": _groups(site, plain, by_kind, tenant.name)}
            for tenant in site.platform.tenants
        ],
        "metricsClients": list(SCRAPERS),
    }


def _plain(site: Site) -> dict[str, dict[str, int]]:
    tenants = site.platform.tenants
    return {
        CPU: {tenant.name: 1000 * tenant.quota.cpu for tenant in tenants},
        MEMORY: {tenant.name: tenant.quota.memory.mebibytes for tenant in tenants},
    }


def _cards(site: Site, kind: str) -> dict[str, int]:
    quotas = {tenant.name: dict(tenant.quota.accelerators) for tenant in site.platform.tenants}
    return {name: held.get(kind, 0) for name, held in quotas.items()}


def _flavor(site: Site, kind: str) -> Values:
    taints = site.cluster.gpu_nodes.taints if site.cluster else ()
    return {
        "name": kind,
        "nodeLabels": {f"{KIND_LABEL}{kind}": "true"},
        "tolerations": [toleration(taint) for taint in taints],
    }


def _groups(site: Site, plain: dict[str, Shares], by_kind: dict[str, Shares], tenant: str | None) -> list[Values]:
    """Resources that are counted together: CPUs and memory, and each extended resource with its kinds of cards."""
    first = [_quota(name, shares, tenant, UNITS[name]) for name, shares in plain.items()]
    groups = [{"coveredResources": list(plain), "flavors": [{"name": FLAVOR, "resources": first}]}]
    for resource in sorted({site.accelerators[kind].resource for kind in by_kind}):
        flavors = [
            {"name": kind, "resources": [_quota(resource, shares, tenant)]}
            for kind, shares in by_kind.items()
            if site.accelerators[kind].resource == resource
        ]
        groups.append({"coveredResources": [resource], "flavors": flavors})
    return groups


def _quota(resource: str, shares: Shares, tenant: str | None, unit: str = "") -> Values:
    """Of a tenant; of the cohort, what no tenant is guaranteed."""
    if tenant is None:
        return {"name": resource, "nominalQuota": f"{shares.rest}{unit}"}
    share: Share = shares.of_tenants[tenant]
    return {
        "name": resource,
        "nominalQuota": f"{share.guaranteed}{unit}",
        "borrowingLimit": f"{share.lent}{unit}",
    }
