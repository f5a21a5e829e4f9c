"""What Kubespray left on the nodes: files and units, recorded after a success as for Strata's own playbooks."""

from __future__ import annotations

import concurrent.futures

from strata.access.ssh import Unreachable, run_ssh
from strata.drift import baseline
from strata.drift.baseline import HostBaseline, ManagedFile, ManagedUnit
from strata.drift.hosts import ask
from strata.errors import UserError
from strata.installers.kubespray.files import nodes
from strata.layers import KUBESPRAY
from strata.site.context import SiteContext
from strata.site.host_list import Host
from strata.site.outputs import write_private

UNITS = ("containerd", "etcd", "kubelet")
FILES = (
    "/etc/containerd/certs.d/*/hosts.toml",
    "/etc/containerd/config.toml",
    "/etc/etcd.env",
    "/etc/kubernetes/*.env",
    "/etc/kubernetes/*-config.yaml",
    "/etc/kubernetes/apiserver-authentication-config*.yaml",
    "/etc/kubernetes/audit-policy/*.yaml",
    "/etc/kubernetes/manifests/*.y*ml",
    "/etc/kubernetes/ssl/secrets_encryption.yaml",
    *(f"/etc/systemd/system/{unit}.service" for unit in UNITS),
)
"""Patterns of what the playbooks render, for the shell; certificates and kubeconfigs are renewed on the node."""


def record_nodes(context: SiteContext) -> None:
    """Makes what is on the nodes now what they are compared with.

    Raises:
        UserError: a node does not respond; nothing is recorded of it, so that the next run compares.
    """
    hosts = nodes(context.site, context.cloud_outputs)
    with concurrent.futures.ThreadPoolExecutor(max_workers=16) as pool:
        silent = [error for error in pool.map(lambda host: _record(context, host), hosts) if error]
    if silent:
        raise UserError(
            f"the cluster is installed, and its files could not be read: {'; '.join(silent)}",
            fix="run the same command again",
            see="kubespray-failed",
        )


def forget_nodes(context: SiteContext) -> None:
    """Before a playbook runs: a node that it leaves half changed has no record that it would match."""
    for file in baseline.directory(context.paths, KUBESPRAY.name).glob("*.json"):
        file.unlink()


def _record(context: SiteContext, host: Host) -> str | None:
    """Returns why a node has no record; None if it has one."""
    try:
        listed = run_ssh(context, host.address, f"ls -d {' '.join(FILES)} 2>/dev/null || true")
        question = HostBaseline(
            files={path: ManagedFile(digest="sha256:") for path in listed.stdout.splitlines()},
            units={name: ManagedUnit() for name in UNITS},
        )
        answer = ask(context, host.address, [question])
    except Unreachable as error:
        return f"{host.name}: {error}"
    files = {path: ManagedFile(**file) for path, file in answer["files"].items() if file is not None}
    units = {
        n: ManagedUnit(active=True, enabled=True) for n, u in answer["units"].items() if u["LoadState"] == "loaded"
    }
    target = baseline.directory(context.paths, KUBESPRAY.name) / f"{host.name}.json"
    write_private(target, HostBaseline(files=files, units=units).model_dump_json(indent=1, exclude_none=True))
    return None
