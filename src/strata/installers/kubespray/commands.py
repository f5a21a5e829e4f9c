"""Kubespray's playbooks: which of them a change of the site needs, and how they are run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from strata.engine.kubernetes_version import require_next_minor
from strata.errors import UserError
from strata.installers.kubespray.configuration import inventory_directory
from strata.installers.kubespray.files import HOSTS
from strata.site.outputs import Outputs
from strata.site.paths import SitePaths
from strata.toolchain.python_environment import Environment

INSTALL, SCALE, REMOVE, UPGRADE, RESET = "cluster", "scale", "remove-node", "upgrade-cluster", "reset"
DNS = "coredns"
"""Tag of the tasks that apply CoreDNS."""
PREVIOUS = "previous.yml"
"""The inventory of the last success, beside the current one: both have the same variables of groups."""
CONFIRMED = {"skip_confirmation": True}
"""What remove-node.yml otherwise prompts for."""
RESET_CONFIRMED = {**CONFIRMED, "reset_confirmation": True}
"""What reset.yml checks: its prompt is skipped, and its check of the answer is not."""


class Record(Outputs):
    """The cluster as Kubespray last left it."""

    file_name: ClassVar[str] = "kubespray.json"
    version: str = ""
    """Of Kubespray; empty before the first success."""
    kubernetes: str = ""
    configuration: str = ""
    """Digest of the variables of groups."""
    names: str = ""
    """Digest of the names that CoreDNS resolves for the site."""
    unfinished: str = ""
    """The playbook that was started and has not succeeded; empty after a success."""
    nodes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Name to roles."""
    variables: dict[str, str] = Field(default_factory=dict)
    """Name to digest of the host's own variables."""
    inventory: str = ""
    """The text of hosts.yml then: what removes a host has to find it there."""


@dataclass(frozen=True)
class Run:
    """One run of a playbook.

    Args:
        playbook: without `.yml`.
        reason: in a few words.
        variables: extra variables.
        inventory: file in the inventory directory.
        tags: of the tasks that run; all where there is none.
    """

    playbook: str
    reason: str
    variables: Mapping[str, object] = field(default_factory=dict)
    inventory: str = HOSTS
    tags: tuple[str, ...] = ()


def next_runs(done: Record, desired: Record) -> list[Run]:
    """The runs that lead from one state of the cluster to another, in order; none if nothing differs.

    Args:
        done: the last success.
        desired: what site.yaml and versions.yaml ask for.

    Raises:
        UserError: an upgrade would skip a minor version of Kubernetes, the first control plane would be removed, or a
            reset did not finish.
    """
    _check_reset(done)
    if not done.version:
        return [Run(INSTALL, "the cluster is not installed")]
    runs = []
    removed = [name for name in done.nodes if name not in desired.nodes]
    if removed:
        _check_removal(done, removed)
        # the hosts are gone, or are about to be: only the cluster forgets them
        variables = {**CONFIRMED, "node": ",".join(removed), "reset_nodes": False, "allow_ungraceful_removal": True}
        reason = f"removed from site.yaml: {', '.join(removed)}"
        runs.append(Run(REMOVE, reason, variables=variables, inventory=PREVIOUS))
    if (done.version, done.kubernetes) != (desired.version, desired.kubernetes):
        require_next_minor(done.kubernetes, desired.kubernetes)
        reason = f"Kubernetes {done.kubernetes} to {desired.kubernetes}, Kubespray {done.version} to {desired.version}"
        return [*runs, Run(UPGRADE, reason)]
    added = [name for name, roles in desired.nodes.items() if done.nodes.get(name) != roles]
    changed = _what_changed(done, desired)
    if done.unfinished and not (done.unfinished == SCALE and added) and not (done.unfinished == REMOVE and removed):
        changed = f"{done.unfinished}.yml did not finish"
    if (
        added
        and not changed
        and not any(name in done.nodes or "kube_control_plane" in desired.nodes[name] for name in added)
    ):
        runs.append(Run(SCALE, f"new in site.yaml: {', '.join(added)}"))
    elif added:
        return [*runs, Run(INSTALL, f"new or with other roles: {', '.join(added)}")]
    if changed:
        return [*runs, Run(INSTALL, changed)]
    if done.names != desired.names:
        runs.append(Run(INSTALL, "names of the site's services have changed", tags=(DNS,)))
    return runs


def _what_changed(done: Record, desired: Record) -> str:
    """Why all nodes are configured again; empty if nothing asks for it."""
    if done.configuration != desired.configuration:
        return "its variables have changed"
    other = [n for n, digest in done.variables.items() if n in desired.variables and desired.variables[n] != digest]
    return f"other variables: {', '.join(other)}" if other else ""


def check_nodes(done: Record, nodes: Mapping[str, tuple[str, ...]]) -> None:
    """Refuses what Kubespray cannot do, before the layers below remove a host.

    Args:
        done: the last success.
        nodes: name to roles, as site.yaml has them.

    Raises:
        UserError: the first control plane, or etcd's majority, would be removed; or a reset did not finish.
    """
    _check_reset(done)
    if removed := [name for name in done.nodes if name not in nodes]:
        _check_removal(done, removed)


def _check_reset(done: Record) -> None:
    if done.unfinished == RESET:
        raise UserError(
            "the reset of the cluster did not finish, and its nodes are in an unknown state",
            fix="`strata kubespray SITE --reset` again, then `strata up`",
            see="kubespray-failed",
        )


def _check_removal(done: Record, removed: list[str]) -> None:
    first = next((name for name, roles in done.nodes.items() if "kube_control_plane" in roles), None)
    if first in removed:
        raise UserError(
            f"{first}: Kubespray cannot remove the first control plane",
            fix="list another control plane first, run `strata up`, then remove it",
            see="kubespray-failed",
        )
    members = [name for name, roles in done.nodes.items() if "kube_control_plane" in roles]
    going = [name for name in members if name in removed]
    if len(going) > (len(members) - 1) // 2:
        raise UserError(
            f"{', '.join(going)}: etcd's majority would be removed, {len(going)} of {len(members)} control planes",
            fix="remove fewer, run `strata up`, then the others",
            see="kubespray-failed",
        )


def command_line(run: Run, source: Path, paths: SitePaths, environment: Environment) -> list[str]:
    """The command as an operator would type it.

    Args:
        run: which playbook.
        source: directory of the playbooks.
        paths: of the site.
        environment: that has ansible-playbook.
    """
    arguments = ["--inventory", str(inventory_directory(paths) / run.inventory)]
    if run.tags:
        arguments += ["--tags", ",".join(run.tags)]
    if run.variables:
        arguments += ["--extra-vars", json.dumps(dict(run.variables))]
    return [str(environment.programs / "ansible-playbook"), *arguments, str(source / f"{run.playbook}.yml")]


def command_environment(source: Path, paths: SitePaths, environment: Environment) -> dict[str, str]:
    """Its environment variables: its own ansible.cfg, events as JSON lines, facts in the site's state."""
    dropped = {"ANSIBLE_STRATEGY", "ANSIBLE_STRATEGY_PLUGINS", "PYTHONPATH", "VIRTUAL_ENV"}
    return {key: value for key, value in os.environ.items() if key not in dropped} | {
        "PATH": f"{environment.programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "ANSIBLE_CONFIG": str(source / "ansible.cfg"),
        # its own configuration has no known_hosts
        "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=30m -o ConnectionAttempts=10",
        "ANSIBLE_HOST_KEY_CHECKING": "true",
        "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(inventory_directory(paths) / "facts"),
        "ANSIBLE_CALLBACKS_ENABLED": "ansible.posix.timer",
        "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.jsonl",
        "ANSIBLE_FORCE_COLOR": "false",
        "PYTHONUNBUFFERED": "1",
    }
