"""A thin typed wrapper around the podman command of the host."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from typing import Any

from strata.errors import UserError
from strata.processes import unmarked_environment
from strata.retry import attempts

RUNTIME = "/usr/sbin/runc"
"""crun cannot raise rlimits without CAP_SYS_RESOURCE and is not on every host."""

GONE = "container not known"
"""`podman ps` lists first and reads each container then; a build's ends meanwhile, and the list fails."""
LIST_PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds between attempts to list containers while builds end."""

SITE_LABEL = "strata.site"
"""Label of every podman object that belongs to a site."""


class PodmanError(UserError):
    """podman refused a command.

    Args:
        command: its arguments.
        status: exit status.
        stderr: what it said.
    """

    def __init__(self, command: Sequence[str], status: int, stderr: str) -> None:
        super().__init__(
            f"podman {' '.join(command[:3])}…: status {status}: {stderr.strip()[-600:]}",
            fix="see what podman says is wrong, then run the same strata command again; it goes on where it stopped",
        )
        self.command = tuple(command)
        self.status = status
        self.stderr = stderr


def podman(*arguments: str, stdin: bytes | None = None) -> str:
    """Runs podman with our runtime and returns its standard output.

    Args:
        arguments: subcommand, options, operands.
        stdin: bytes for its standard input.

    Raises:
        PodmanError: exit status other than 0.
        UserError: podman is not installed.
    """
    try:
        result = subprocess.run(
            ["podman", "--runtime", RUNTIME, *arguments],
            input=stdin or b"",
            capture_output=True,
            check=False,
            env=unmarked_environment(),  # a container that it starts stays
        )
    except FileNotFoundError as error:
        raise UserError("podman is not installed", fix="apt-get install podman runc") from error
    if result.returncode != 0:
        raise PodmanError(arguments, result.returncode, result.stderr.decode(errors="replace"))
    return result.stdout.decode(errors="replace")


def exists(kind: str, name: str) -> bool:
    """Whether a container, image, network or volume of that name is there."""
    try:
        podman(kind, "exists", name)
    except PodmanError as error:
        if error.status == 1:
            return False
        raise
    return True


def container_status(name: str) -> str | None:
    """`running`, `exited`, `created`, …; None where there is no such container."""
    # inspect fails for a container whose removal was cut off
    found = list_containers("--filter", f"name=^{name}$")
    return str(found[0]["State"]) if found else None


def list_containers(*options: str) -> list[dict[str, Any]]:
    """What `podman ps --all` knows of containers, also of partially created ones, which inspect refuses.

    Args:
        options: filters.

    Raises:
        PodmanError: podman refused.
    """
    for last in attempts(LIST_PAUSES):
        try:
            found: list[dict[str, Any]] | None = json.loads(podman("ps", "--all", "--format", "json", *options) or "[]")
        except PodmanError as error:
            if last or GONE not in error.stderr:
                raise
        else:
            return found or []
    raise AssertionError  # the last attempt returns or raises


def partially_created(site: str) -> list[str]:
    """Names of a site's containers whose creation or removal a killed podman left half done.

    Args:
        site: nothing may create or remove containers of it meanwhile.
    """
    # of what it has not finished creating podman knows no label, so its filters are of no use
    own = re.compile(rf"strata-{re.escape(site)}-(controller(-new)?|network|[0-9a-f]{{8}}-[0-9a-f-]{{27}}(-before)?)")
    found = [c for c in list_containers("--external") if c["Names"]]
    removed = [c for c in found if c["State"] == "removing" and (c["Labels"] or {}).get(SITE_LABEL) == site]
    created = [c for c in found if c["State"] == "storage" and own.fullmatch(c["Names"][0])]
    return [c["Names"][0] for c in (*removed, *created)]


def site_containers(site: str, *, running: bool = False) -> list[str]:
    """Names of all containers of a site, instances included, or of those that run."""
    status = ("--filter", "status=running") if running else ()
    label = f"label={SITE_LABEL}={site}"
    return podman("ps", "--all", "--filter", label, *status, "--format", "{{.Names}}").split()


def site_networks(site: str) -> list[str]:
    """Names of all networks of a site."""
    return podman("network", "ls", "--filter", f"label={SITE_LABEL}={site}", "--format", "{{.Name}}").split()


def site_images(site: str) -> list[str]:
    """Names of all images that hold the root of a site's resized instance."""
    pattern = f"reference=localhost/strata-{site}/*"
    return podman("image", "ls", "--filter", pattern, "--format", "{{.Repository}}:{{.Tag}}").split()


def site_volumes(site: str) -> list[str]:
    """Names of all volumes of a site."""
    return podman("volume", "ls", "--filter", f"label={SITE_LABEL}={site}", "--format", "{{.Name}}").split()
