"""Faults of the cluster's datastore: kine is stopped for seconds, and the API server gets requests meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator

from strata.roles import port
from strata_bench.waiting import eventually

from .alert_fault import NAME, Lab, Labels

STOPPED_SECONDS = 6
"""Less than controllers wait before they give up their leadership, 10 s."""
AT_ONCE = 40
TLS = "/etc/kubernetes/pki"
OBJECT = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt"
"""Each request for it is one to the datastore."""


def _stopped(lab: Lab, query: str, requests: int) -> None:
    """Requests while the datastore does not respond; returns once it does.

    Args:
        lab: the lab.
        query: of the URL.
        requests: how many, AT_ONCE of them at one time.
    """
    kine, listen = lab.first("kine"), port("kube_control_plane", "kubernetes-api")
    signals = (f"systemctl kill --signal={signal} kine" for signal in ("STOP", "CONT"))
    # on its host, so that it goes on even if this process ends
    lab.sh(kine, f"systemd-run --quiet --collect --unit={NAME} sh -c '{f'; sleep {STOPPED_SECONDS}; '.join(signals)}'")
    identity = (
        f"--cacert {TLS}/ca.crt --cert {TLS}/apiserver-kubelet-client.crt --key {TLS}/apiserver-kubelet-client.key"
    )
    options = f"--silent --show-error --http1.1 --parallel --parallel-immediate --parallel-max {AT_ONCE} --max-time 60"
    url = f"https://kubernetes:{listen}{OBJECT}?{query}number=[1-{requests}]"
    # which may fail: of a request that it gives up, the API server may close the connection
    curl = f"curl {options} {identity} --resolve kubernetes:{listen}:127.0.0.1 '{url}'"
    lab.host(lab.first("kube_control_plane")).run(f"{curl} >/dev/null 2>&1")
    eventually(lambda: lab.host(kine).run(f"systemctl is-active {NAME}").rc != 0, 60, "kine continues")
    eventually(lambda: lab.kubectl("get", "--raw=/readyz") == "ok", 120, "the API server is ready")


def slow_datastore(lab: Lab) -> Iterator[Labels]:
    """Requests wait until it continues."""
    _stopped(lab, "", AT_ONCE)
    yield {}


def silent_datastore(lab: Lab) -> Iterator[Labels]:
    """Requests have a timeout, after which the API server answers 504."""
    # a new series has increased from nothing only once it has two samples
    for pause in (15, 0):
        _stopped(lab, "timeout=1s&", 5 * AT_ONCE)
        time.sleep(pause)
    yield {}
