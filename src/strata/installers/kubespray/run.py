"""Installs or changes a site's cluster by Kubespray, and stores what the layer above needs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

import yaml

from strata.access.ssh import wait_for_ssh
from strata.engine.ansible import follow_ansible
from strata.errors import UserError
from strata.installers.kubespray.baseline import forget_nodes, record_nodes
from strata.installers.kubespray.commands import (
    PREVIOUS,
    REMOVE,
    SCALE,
    Record,
    Run,
    command_environment,
    command_line,
    next_runs,
)
from strata.installers.kubespray.configuration import (
    configuration_digest,
    inventory_directory,
    names_digest,
    write_configuration,
)
from strata.installers.kubespray.files import HOSTS, inventory, nodes
from strata.installers.kubespray.source import PROGRAM, ensure_source, pinned
from strata.inventory.kubernetes import endpoint
from strata.inventory.port_numbers import KUBERNETES_API
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site.host_list import api_address
from strata.site.outputs import write_private
from strata.toolchain.python_environment import ensure_environment
from strata.toolchain.versions import load_versions


def require_kubespray(context: SiteContext) -> None:
    """Refuses a site whose cluster is not Kubespray's.

    Raises:
        UserError: the site's installer is another, or it has no cluster.
    """
    cluster = context.site.cluster
    if cluster is None or cluster.installer != PROGRAM:
        installer = None if cluster is None else cluster.installer
        raise UserError(
            f"{context.site_file}: cluster.installer = {installer}: Kubespray does not install this cluster",
            fix="installer: kubespray with datastore: etcd, or `strata up`",
            see="kubespray-failed",
        )


def prepare(context: SiteContext) -> list[Run]:
    """Writes the inventory and returns the runs that the site needs, in order.

    Raises:
        UserError: the site's installer is another, its hosts do not exist yet, or Kubespray cannot do what changed.
    """
    require_kubespray(context)
    write_configuration(context)
    done = Record.load(context.paths) or Record()
    if done.inventory:
        write_private(inventory_directory(context.paths) / PREVIOUS, done.inventory)
    return next_runs(done, desired(context))


def desired(context: SiteContext) -> Record:
    """What the record is once everything has run; the inventory is written."""
    site, outputs = context.site, context.cloud_outputs
    hosts = inventory(site, outputs)["all"]["hosts"]
    return Record(
        version=pinned()[0],
        kubernetes=load_versions().components["kubernetes"].version,
        configuration=configuration_digest(context),
        names=names_digest(context),
        nodes={host.name: host.roles for host in nodes(site, outputs)},
        variables={
            name: hashlib.sha256(json.dumps(host, sort_keys=True).encode()).hexdigest() for name, host in hosts.items()
        },
        inventory=(inventory_directory(context.paths) / HOSTS).read_text(),
    )


def run_all(context: SiteContext, runs: Iterable[Run], progress: Progress) -> list[str]:
    """Runs playbooks; each success is recorded, so that the next call resumes with what failed.

    Args:
        context: the site; its hosts are up.
        runs: as of `prepare`, in order.
        progress: shows play and task.

    Returns:
        For each run: playbook, reason and number of changes.

    Raises:
        UserError: a playbook failed; names host, task and message. Or a host does not respond; nothing was changed.
    """
    done = []
    for run in runs:
        wait_for_ssh(context, progress)
        before = Record.load(context.paths) or Record()
        before.model_copy(update={"unfinished": run.playbook}).save(context.paths)
        if not run.tags:
            forget_nodes(context)
        changed = run_playbook(run, context, progress)
        if not run.tags:
            progress.update("recording the files and units of the nodes")
            record_nodes(context)
        _record(run, context)
        done.append(f"{run.playbook} ({run.reason}): {changed} changed")
    return done


def run_playbook(run: Run, context: SiteContext, progress: Progress) -> int:
    """Runs one playbook; returns the number of changes.

    Raises:
        UserError: it failed; names host, task and message.
    """
    paths, source, environment = context.paths, ensure_source(progress), ensure_environment(PROGRAM, progress)
    log = paths.create().logs / f"{PROGRAM}-{run.playbook}.log"
    progress.update(f"starting {run.playbook}.yml: {run.reason}")
    result, status, last = follow_ansible(
        command_line(run, source, paths, environment),
        command_environment(source, paths, environment),
        log,
        progress,
        directory=source,
        show_plays=True,
    )
    if status != 0:
        # the last ones: what Kubespray ignores or rescues is among the failures too
        reason = "; ".join(result.failures[-3:]) or f"exit status {status}: {' '.join(last)}"
        raise UserError(
            f"kubespray {run.playbook}: {reason}",
            fix=f"see {log}, fix it, and run the same command again",
            see="kubespray-failed",
        )
    return result.changed


def _record(run: Run, context: SiteContext) -> None:
    """After a success."""
    current, before = desired(context), Record.load(context.paths) or Record()
    if run.playbook == REMOVE:
        left = {name: roles for name, roles in before.nodes.items() if name in current.nodes}
        before.model_copy(update={"nodes": left, "unfinished": ""}).save(context.paths)
    elif run.playbook == SCALE:
        # CoreDNS is not among its tasks
        current.model_copy(update={"names": before.names}).save(context.paths)
    else:
        if not run.tags:
            _store_kubeconfig(context)
        current.save(context.paths)


def _store_kubeconfig(context: SiteContext) -> None:
    """The administrator's kubeconfig, with the address at which the deployment host reaches the API server."""
    artifact = inventory_directory(context.paths) / "artifacts" / "admin.conf"
    kubeconfig = yaml.safe_load(artifact.read_text())
    address = api_address(context.site, context.cloud_outputs, outside=True)
    assert address is not None, "a cluster without control planes was refused before"
    for cluster in kubeconfig["clusters"]:
        cluster["cluster"]["server"] = endpoint(address, KUBERNETES_API)
    write_private(context.paths.kubeconfig, yaml.safe_dump(kubeconfig, sort_keys=False))
    artifact.unlink()
