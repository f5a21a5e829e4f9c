"""What makes each alert's expression return a series, and what heals it again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping

import pytest
import requests

from strata.access.https import site_session
from strata.catalogue.published import published
from strata.catalogue.service import SYSTEM_NAMESPACE
from strata.verify.pods import PodRequest, create
from strata_services.htcondor.needs import NAMESPACE as HTCONDOR
from strata_services.jupyterhub.needs import NAMESPACE as HUB

from .alert_fault import NAME, NONROOT, Broken, Fault, Lab, Labels, lasting, pod
from .batch_faults import failing_servers, held_job, job_beyond_the_quota, unmatched_job
from .datastore_faults import silent_datastore, slow_datastore
from .lab_site import homes_volume
from .prometheus_faults import damaged_log, failing_rules, missing_targets, rejected_configuration
from .scarce import full

METRICS_FILE = f"/var/lib/prometheus/node-exporter/{NAME}.prom"
CARDS = "/etc/strata/pci/devices"


def scaled_to_zero(namespace: str, workload: str, **labels: str) -> Broken:
    """A workload without pods."""

    def broken(lab: Lab) -> Iterator[Labels]:
        current = json.loads(lab.kubectl("get", workload, f"--namespace={namespace}", "--output=json"))
        lab.kubectl("scale", workload, f"--namespace={namespace}", "--replicas=0")
        try:
            yield labels
        finally:
            lab.kubectl("scale", workload, f"--namespace={namespace}", f"--replicas={current['spec']['replicas']}")

    return broken


def stopped_unit(role: str, unit: str, **labels: str) -> Broken:
    """A unit that does not run, on the first host with a role."""

    def broken(lab: Lab) -> Iterator[Labels]:
        name = lab.first(role)
        lab.sh(name, f"systemctl stop {unit}")
        try:
            yield {"node": name, **labels}
        finally:
            lab.sh(name, f"systemctl start {unit}")

    return broken


def without_nodes(namespace: str, workload: str) -> Broken:
    """A DaemonSet that finds no node."""

    def broken(lab: Lab) -> Iterator[Labels]:
        def select(value: str | None) -> None:
            patch = {"spec": {"template": {"spec": {"nodeSelector": {f"{NAME}/none": value}}}}}
            options = (f"--namespace={namespace}", "--type=merge", f"--patch={json.dumps(patch)}")
            lab.kubectl("patch", workload, *options)

        select("true")
        try:
            yield {}
        finally:
            select(None)
            lab.kubectl("rollout", "status", workload, f"--namespace={namespace}", "--timeout=110s")

    return broken


def full_homes(lab: Lab) -> Iterator[Labels]:
    """As after a user who wrote too much."""
    name, volume = lab.first("nfs_server"), str(homes_volume(lab.context.site))
    with full(lab.host(name), volume):
        yield {"node": name, "mountpoint": volume}


def unreadable_homes(lab: Lab) -> Iterator[Labels]:
    """As with a directory above them that only its owner may enter."""
    name, volume = lab.first("nfs_server"), homes_volume(lab.context.site)
    lab.sh(name, f"chmod 0700 {volume.parent}")
    try:
        yield {"node": name, "mountpoint": str(volume)}
    finally:
        lab.sh(name, f"chmod 0755 {volume.parent}")


def overdue_backup(lab: Lab) -> Iterator[Labels]:
    """As the role backup writes it."""
    name = lab.first("nfs_server")
    metric = "strata_backup_due_timestamp_seconds"
    # of the same type as in the role's own file, which the exporter reads too
    lines = f'# TYPE {metric} gauge\\n{metric}{{item="{NAME}"}} {time.time() - 60:.0f}\\n'
    lab.sh(name, f"printf '{lines}' >{METRICS_FILE}")
    try:
        yield {"node": name, "item": NAME}
    finally:
        lab.sh(name, f"rm -f {METRICS_FILE}")


def memory_in_use(lab: Lab) -> Iterator[Labels]:
    """As on every host: filling it would have the kernel end processes of the host that all of the lab runs on."""
    yield {"node": lab.first("nfs_server")}


def exceeded_quota(lab: Lab) -> Iterator[Labels]:
    """A pod that no tenant may have."""
    images, tenant = lab.context.image_outputs, lab.context.site.platform.tenants[0].name
    assert images is not None
    resources = {"cpu": "900", "memory": "1Mi"}
    request = PodRequest(NAME, images.images["pod-base"], ["true"], resources=resources, identity=NONROOT)
    # a new series has increased from nothing only once it has two samples
    for _ in range(2):
        with pytest.raises(AssertionError, match="exceeded quota"):
            create(lab.kubectl, tenant, request)
        time.sleep(15)
    yield {"operation": "CREATE"}


def faulty_card(file: str, value: int) -> Broken:
    """A file in the directory of a simulated card, which its exporter reads."""

    def broken(lab: Lab) -> Iterator[Labels]:
        name = lab.first("gpu_node")
        card = lab.sh(name, f"ls {CARDS} | head -n 1")
        lab.sh(name, f"echo {value} >{CARDS}/{card}/{file}")
        try:
            yield {"node": name, "pci_bus_id": card}
        finally:
            lab.sh(name, f"rm -f {CARDS}/{card}/{file}")

    return broken


def node_without_exporter(lab: Lab) -> Iterator[Labels]:
    """The exporter of its cards finds no node."""
    with lasting(without_nodes("monitoring", "daemonset/dcgm-exporter"), lab):
        yield {"node": lab.first("gpu_node")}


def missing_card(lab: Lab) -> Iterator[Labels]:
    """A card that left the bus."""
    name = lab.first("gpu_node")
    card = lab.sh(name, f"ls {CARDS} | head -n 1")
    away = f"{CARDS.rpartition('/')[0]}/{NAME}"
    lab.sh(name, f"mv {CARDS}/{card} {away}")
    try:
        yield {"node": name}
    finally:
        lab.sh(name, f"mv {away} {CARDS}/{card}")


def idle_card(lab: Lab) -> Iterator[Labels]:
    """A pod that holds it and does nothing."""
    holder = pod(
        "default", "sleep 300", container={"resources": {"limits": {"memory": "64Mi", "nvidia.com/gpu": "1"}}},
        spec={"tolerations": [{"operator": "Exists"}]},
    )  # fmt: skip
    # none of its samples may be one of a card in use
    with lasting(faulty_card("utilization", 0), lab), lasting(holder, lab) as labels:
        yield labels


def failing_service(lab: Lab) -> Iterator[Labels]:
    """ML Hub without pods, while users call it."""
    (page,) = (service for service in published(lab.context.site) if service.host.startswith("ml-hub."))
    with lasting(scaled_to_zero(SYSTEM_NAMESPACE, "deployment/ml-hub"), lab) as labels:
        with site_session(lab.context) as http:
            end = time.monotonic() + 40
            while time.monotonic() < end:
                answer = http.get(page.health_url, timeout=10)
                assert isinstance(answer, requests.Response)
                time.sleep(0.5)
        yield labels


READINESS = {"exec": {"command": ["false"]}, "periodSeconds": 2}
SCRAPED = {"annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9"}}
FAULTS: Mapping[str, Fault] = {
    "HubDown": Fault(scaled_to_zero(HUB.name, "deployment/hub")),
    "ProxyDown": Fault(scaled_to_zero(HUB.name, "deployment/proxy")),
    "IssuerDown": Fault(scaled_to_zero(SYSTEM_NAMESPACE, "deployment/keycloak")),
    "AccountingCollectorDown": Fault(scaled_to_zero(SYSTEM_NAMESPACE, "deployment/accounting")),
    "AccessPointDown": Fault(scaled_to_zero(HTCONDOR.name, "statefulset/htcondor-access-point")),
    "CentralManagerDown": Fault(scaled_to_zero(HTCONDOR.name, "statefulset/htcondor-central-manager")),
    "BatchQueueUnknown": Fault(scaled_to_zero(HTCONDOR.name, "deployment/htcondor-provisioner")),
    "BatchJobsHeld": Fault(held_job),
    "BatchJobsWithoutExecutionPoint": Fault(job_beyond_the_quota, replace=("> 900", "> 20")),
    "BatchJobsNotMatched": Fault(unmatched_job, replace=("> 900", "> 20")),
    "ClusterDnsDown": Fault(scaled_to_zero("kube-system", "deployment/coredns")),
    "IngressDown": Fault(without_nodes("traefik", "daemonset/traefik")),
    "HostDown": Fault(stopped_unit("registry", "prometheus-node-exporter")),
    "UnitDown": Fault(stopped_unit("registry", "docker-registry", name="docker-registry.service")),
    "NodeDown": Fault(stopped_unit("gpu_node", "kubelet")),
    "TargetDown": Fault(pod(SYSTEM_NAMESPACE, "sleep 300", metadata=SCRAPED)),
    "DiskAlmostFull": Fault(full_homes),
    "HomesFull": Fault(full_homes),
    "FileSystemNotMeasured": Fault(unreadable_homes),
    "BackupOverdue": Fault(overdue_backup),
    "ContainerRestarts": Fault(pod("default", "sleep 12; exit 1", spec={"restartPolicy": "Always"}), window="4m"),
    "PodNotReady": Fault(pod("default", "sleep 300", container={"readinessProbe": READINESS})),
    "QuotaReached": Fault(exceeded_quota),
    "ServersDoNotStart": Fault(failing_servers),
    "CertificateExpires": Fault(lambda _: iter([{"job": "traefik"}]), replace=("14 * 86400", "14000 * 86400")),
    "MemoryAlmostFull": Fault(memory_in_use, replace=("< 0.05", "< 1")),
    "ServiceErrors": Fault(failing_service),
    "AcceleratorError": Fault(faulty_card("xid", 79)),
    "AcceleratorHot": Fault(faulty_card("temperature", 90)),
    "AcceleratorIdle": Fault(idle_card),
    "AcceleratorMissing": Fault(missing_card),
    "AcceleratorsNotMeasured": Fault(node_without_exporter),
    "ApiServerErrors": Fault(silent_datastore),
    "DatastoreSlow": Fault(slow_datastore, window="30s"),
    "MetricsMissing": Fault(missing_targets),
    "PrometheusConfigurationRejected": Fault(rejected_configuration),
    "PrometheusRulesFail": Fault(failing_rules),
    "PrometheusStorageFails": Fault(damaged_log, window="4m"),
}
NOT_PROVOKED: Mapping[str, str] = {
    "ContainerOutOfMemory": "the kernel names the control group from the host's root, and cAdvisor, in a container as "
    "all of the lab's nodes are, looks for it below its own; nothing else of a site exports it",
}
"""Why not; their examples are judged by promtool."""
