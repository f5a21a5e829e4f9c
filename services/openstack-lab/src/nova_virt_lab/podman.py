"""Calls to the host's podman service."""

from __future__ import annotations

import json
from typing import Any

from nova.virt.lab.options import CONF
from oslo_concurrency import processutils


class PodmanError(Exception):
    """podman refused a command.

    Args:
        command: its arguments.
        stderr: what it said.
    """

    def __init__(self, command: tuple[str, ...], stderr: str) -> None:
        super().__init__(f"podman {' '.join(command[:2])}: {stderr.strip()[-400:]}")
        self.stderr = stderr

    @property
    def missing(self) -> bool:
        """Whether the object that the command named is not there."""
        return "no such " in self.stderr.lower() or "not found" in self.stderr.lower()


def podman(*arguments: str, stdin: bytes | None = None, check: bool = True) -> str:
    """Runs the remote client and returns its standard output.

    Args:
        arguments: subcommand, options, operands.
        stdin: bytes for its standard input.
        check: whether an exit status other than 0 is an error.

    Raises:
        PodmanError: the command failed.
    """
    command = (CONF.lab.podman, "--remote", "--url", CONF.lab.podman_url, *arguments)
    try:
        out, _ = processutils.execute(*command, process_input=stdin, check_exit_code=[0] if check else False)
    except processutils.ProcessExecutionError as error:
        raise PodmanError(arguments, str(error.stderr or error)) from error
    return str(out)


def containers(host: str) -> list[dict[str, Any]]:
    """The containers of one hypervisor, running or not, as `podman ps` shows them."""
    listing = podman(
        *("ps", "--all", "--format", "json"),
        *("--filter", f"label=strata.site={CONF.lab.site}", "--filter", f"label=strata.hypervisor={host}"),
    )
    found: list[dict[str, Any]] = json.loads(listing or "[]") or []
    return found


def status(name: str) -> str | None:
    """`running`, `exited`, …; None where there is no such container."""
    try:
        return podman("container", "inspect", "--format", "{{.State.Status}}", name).strip()
    except PodmanError as error:
        if error.missing:
            return None
        raise


def network_exists(name: str) -> bool:
    """Whether a network of that name is there."""
    return name in podman("network", "ls", "--format", "{{.Name}}").split()


def remove(name: str, volumes: list[str]) -> None:
    """Removes a container and its volumes where they are there."""
    for command in (("rm", "--force", "--ignore", "--time", "0", name), ("volume", "rm", "--force", *volumes)):
        try:
            podman(*command)
        except PodmanError as error:
            if not error.missing:
                raise
