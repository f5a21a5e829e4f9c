"""Calls to the host's podman service."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from nova.virt.lab.options import CONF
from oslo_concurrency import processutils

SET_ASIDE = "-before"
"""End of the name of a container that a resize or a rescue keeps for the way back."""


class PodmanError(Exception):
    """podman refused a command.

    Args:
        command: its arguments.
        stderr: what it reported.
    """

    def __init__(self, command: tuple[str, ...], stderr: str) -> None:
        super().__init__(f"podman {' '.join(command[:2])}: {stderr.strip()[-400:]}")
        self.stderr = stderr

    @property
    def missing(self) -> bool:
        """Whether the object that the command named is missing, or partially removed by an interrupted removal."""
        said = self.stderr.lower()
        return any(words in said for words in ("no such ", "not found", "container not known"))


def podman(*arguments: str, stdin: bytes | None = None, check: bool = True, attempts: int = 1) -> str:
    """Runs the remote client and returns its standard output.

    Args:
        arguments: subcommand, options, operands.
        stdin: bytes for its standard input.
        check: whether an exit status other than 0 is an error.
        attempts: how often it is tried, with pauses of 0.2 to 2 s.

    Raises:
        PodmanError: the command failed.
    """
    command = (CONF.lab.podman, "--remote", "--url", CONF.lab.podman_url, *arguments)
    try:
        out, _ = processutils.execute(
            *command, process_input=stdin, check_exit_code=[0] if check else False, attempts=attempts
        )
    except processutils.ProcessExecutionError as error:
        raise PodmanError(arguments, str(error.stderr or error)) from error
    return str(out)


def containers(host: str) -> list[dict[str, Any]]:
    """The instances of one hypervisor, running or not, as `podman ps` shows them."""
    listing = podman(
        *("ps", "--all", "--format", "json"),
        *("--filter", f"label=strata.site={CONF.lab.site}", "--filter", f"label=strata.hypervisor={host}"),
    )
    entries: list[dict[str, Any]] = json.loads(listing or "[]") or []
    return [c for c in entries if not (c.get("Names") or [""])[0].endswith(SET_ASIDE)]


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


def remove(names: Sequence[str], volumes: Sequence[str]) -> None:
    """Removes containers, and then volumes, where they are there."""
    commands: list[tuple[str, ...]] = []
    if names:
        commands.append(("rm", "--force", "--ignore", "--time", "0", *names))
    # one call each: where one of several is missing, podman's answer does not name it
    commands += [("volume", "rm", "--force", volume) for volume in volumes]
    for command in commands:
        try:
            podman(*command)
        except PodmanError as error:
            if not error.missing:
                raise


def remove_images(name: str) -> None:
    """Removes the images of a name, with its tag or of all tags."""
    # fails if another process removes an image meanwhile: podman lists them first and reads each one then
    listed = podman("images", "--format", "{{.Repository}}:{{.Tag}}", "--filter", f"reference={name}", attempts=5)
    images = listed.split()
    if images:
        podman("rmi", "--force", *images)
