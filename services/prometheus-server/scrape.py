"""Targets of the cluster and its hosts, in the form of prometheus.yml. Targets of services are the need Metrics'.

Names of jobs are those of kube-prometheus-stack, so that rules and dashboards made for one work with the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strata.catalogue.needs.metrics import MONITORING_NAMESPACE
from strata.roles import port

Config = dict[str, Any]

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
NODE_EXPORTER = port("node_exporter")
KUBELET = port("kube_node", "kubelet")
ACCELERATORS = 9400
"""Of NVIDIA's DCGM exporter."""
COREDNS = 9153
NAME = "__name__"
# what rules, dashboards and checks use; a kubelet has 1,500 more series, the API server 30,000
CADVISOR_KEEP = (
    "container_(cpu_usage_seconds_total|cpu_cfs_throttled_seconds_total|memory_working_set_bytes|memory_rss|oom_events_total|"
    "network_(receive|transmit)_bytes_total|fs_(reads|writes)_bytes_total|start_time_seconds|"
    "spec_(cpu_quota|cpu_period|cpu_shares|memory_limit_bytes))|machine_(cpu_cores|memory_bytes)"
)
KUBELET_KEEP = (
    "kubelet_(running_pods|running_containers|volume_stats_.+|node_name|certificate_manager_client_ttl_seconds|"
    "pleg_relist_duration_seconds_(sum|count))|"
    "process_(cpu_seconds_total|resident_memory_bytes)"
)
API_SERVER_KEEP = (
    "apiserver_(request_total|request_duration_seconds_(sum|count)|current_inflight_requests|storage_objects)|"
    "(etcd|apiserver_storage)_request_duration_seconds_(sum|count)|process_(cpu_seconds_total|resident_memory_bytes)"
)
QUOTA_KEEP = "apiserver_admission_controller_admission_duration_seconds_count;ResourceQuota"
"""Of the admission plugins, the one that refuses what exceeds a quota."""
PROBES_KEEP = "prober_probe_total"
COREDNS_KEEP = "coredns_(dns_(requests|responses)_total|cache_.+_total|forward_.+_(sum|count|total))|process_.+"


def cluster_jobs() -> list[Config]:
    """Jobs for nodes, accelerators and the cluster's own parts."""
    return [
        _nodes("kubelet", "/metrics", KUBELET_KEEP),
        _nodes("cadvisor", "/metrics/cadvisor", CADVISOR_KEEP),
        _nodes("probes", "/metrics/probes", PROBES_KEEP),
        {
            "job_name": "apiserver",
            "scheme": "https",
            "tls_config": {"ca_file": f"{ACCOUNT}/ca.crt"},
            "authorization": {"credentials_file": f"{ACCOUNT}/token"},
            # several API servers take turns behind the Service: a series would jump between them
            "kubernetes_sd_configs": [{"role": "endpoints", "namespaces": {"names": ["default"]}}],
            "relabel_configs": [
                {"source_labels": ["__meta_kubernetes_service_name"], "regex": "kubernetes", "action": "keep"},
                {"target_label": "namespace", "replacement": "default"},
            ],
            "metric_relabel_configs": [
                {"source_labels": [NAME, "name"], "regex": f"({API_SERVER_KEEP});.*|{QUOTA_KEEP}", "action": "keep"}
            ],
        },
        {
            "job_name": "coredns",
            "kubernetes_sd_configs": [{"role": "pod", "namespaces": {"names": ["kube-system"]}}],
            "relabel_configs": [
                {"source_labels": ["__meta_kubernetes_pod_label_k8s_app"], "regex": "kube-dns", "action": "keep"},
                {
                    "source_labels": ["__meta_kubernetes_pod_container_port_number"],
                    "regex": str(COREDNS),
                    "action": "keep",
                },
                {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
                {"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "pod"},
                {"source_labels": ["__meta_kubernetes_pod_node_name"], "target_label": "node"},
            ],
            "metric_relabel_configs": [_keep(COREDNS_KEEP)],
        },
        {
            "job_name": "dcgm-exporter",
            "kubernetes_sd_configs": [{"role": "pod", "namespaces": {"names": [MONITORING_NAMESPACE]}}],
            "relabel_configs": [
                {
                    "source_labels": ["__meta_kubernetes_pod_label_app_kubernetes_io_name"],
                    "regex": "dcgm-exporter",
                    "action": "keep",
                },
                {
                    "source_labels": ["__meta_kubernetes_pod_container_port_number"],
                    "regex": str(ACCELERATORS),
                    "action": "keep",
                },
                {"source_labels": ["__meta_kubernetes_pod_node_name"], "target_label": "node"},
            ],
            # namespace, pod and container are those that hold the card
            "honor_labels": True,
        },
    ]


def host_job(hosts: Mapping[str, str]) -> Config:
    """The job for the node exporters.

    Args:
        hosts: name to address.
    """
    return {
        "job_name": "node-exporter",
        "static_configs": [
            {"targets": [_target(address, NODE_EXPORTER)], "labels": {"instance": name, "node": name}}
            for name, address in sorted(hosts.items())
        ],
        # of the five states of a unit, the two that matter
        "metric_relabel_configs": [
            {
                "source_labels": [NAME, "state"],
                "regex": "node_systemd_unit_state;(activating|deactivating|inactive)",
                "action": "drop",
            }
        ],
    }


def _nodes(job: str, path: str, keep: str) -> Config:
    return {
        "job_name": job,
        "scheme": "https",
        "metrics_path": path,
        # a kubelet signs its own certificate; the token permits nothing but reading metrics
        "tls_config": {"insecure_skip_verify": True},
        "authorization": {"credentials_file": f"{ACCOUNT}/token"},
        "kubernetes_sd_configs": [{"role": "node"}],
        "relabel_configs": _node_labels(),
        "metric_relabel_configs": [_keep(keep)],
    }


def _node_labels() -> list[Config]:
    source = ["__meta_kubernetes_node_name"]
    return [
        {"source_labels": source, "target_label": "node"},
        {"source_labels": source, "target_label": "instance"},
    ]


def _keep(regex: str) -> Config:
    return {"source_labels": [NAME], "regex": regex, "action": "keep"}


def _target(address: str, number: int) -> str:
    return f"[{address}]:{number}" if ":" in address else f"{address}:{number}"
