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

GONE = re.compile("(container|image|layer) not known")
"""podman lists first and reads each object then: `ps` containers, `image ls` images, and `build` images' layers, to use
them again. If another process removes one meanwhile, the command fails."""
GONE_PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds between attempts at a command that met such a removal."""

SITE_LABEL = "strata.site"
"""Label of every podman object that belongs to a site."""


class PodmanError(UserError):
    """podman refused a command.

    Args:
        command: its arguments.
        status: exit status.
        stderr: what it reported.
    """

    def __init__(self, command: Sequence[str], status: int, stderr: str) -> None:
        super().__init__(
            f"podman {' '.join(command[:3])}…: status {status}: {stderr.strip()[-600:]}",
            fix="see podman's message, then run the same strata command again; it goes on where it stopped",
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


def _beside_removals(*arguments: str, stdin: bytes | None = None) -> str:
    """Runs podman as podman() does, and again while it meets the removal of an object that it was not asked for."""
    for last in attempts(GONE_PAUSES):
        try:
            return podman(*arguments, stdin=stdin)
        except PodmanError as error:
            if last or not GONE.search(error.stderr):
                raise
    raise AssertionError  # the last attempt returns or raises


def build_image(*arguments: str, stdin: bytes | None = None) -> None:
    """Runs `podman build`; others may remove images meanwhile.

    Args:
        arguments: options, build context.
        stdin: bytes for its standard input.

    Raises:
        PodmanError: podman refused.
    """
    _beside_removals("build", *arguments, stdin=stdin)


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
    containers = list_containers("--filter", f"name=^{name}$")
    return str(containers[0]["State"]) if containers else None


def container_label(name: str, label: str) -> str:
    """Value of a container's label; empty where it has none."""
    labels = json.loads(podman("container", "inspect", "--format", "{{json .Config.Labels}}", name))
    return str(labels.get(label, ""))


def list_containers(*options: str) -> list[dict[str, Any]]:
    """What `podman ps --all` knows of containers, also of partially created ones, which inspect refuses.

    Args:
        options: filters.

    Raises:
        PodmanError: podman refused.
    """
    listed = _beside_removals("ps", "--all", "--format", "json", *options)
    containers: list[dict[str, Any]] | None = json.loads(listed or "[]")
    return containers or []


def partially_created(site: str) -> list[str]:
    """Names of a site's containers whose creation or removal a killed podman left half done.

    Args:
        site: nothing may create or remove containers of it meanwhile.
    """
    # of what it has not finished creating podman knows no label, so its filters are of no use
    own = re.compile(
        rf"strata-{re.escape(site)}-(controller(-new)?|backup-store(-new)?|network|[0-9a-f]{{8}}-[0-9a-f-]{{27}}(-before)?)"
    )
    containers = [c for c in list_containers("--external") if c["Names"]]
    removed = [c for c in containers if c["State"] == "removing" and (c["Labels"] or {}).get(SITE_LABEL) == site]
    created = [c for c in containers if c["State"] == "storage" and own.fullmatch(c["Names"][0])]
    return [c["Names"][0] for c in (*removed, *created)]


def site_containers(site: str, *, running: bool = False) -> list[str]:
    """Names of all containers of a site, instances included, or of those that run."""
    status = ("--filter", "status=running") if running else ()
    label = f"label={SITE_LABEL}={site}"
    return _beside_removals("ps", "--all", "--filter", label, *status, "--format", "{{.Names}}").split()


def site_networks(site: str) -> list[str]:
    """Names of all networks of a site."""
    return podman("network", "ls", "--filter", f"label={SITE_LABEL}={site}", "--format", "{{.Name}}").split()


def image_names(pattern: str) -> list[str]:
    """Names and tags of the images that match a pattern.

    Args:
        pattern: `localhost/strata/pod/*`; with or without a tag.
    """
    form = ("--format", "{{.Repository}}:{{.Tag}}")
    return _beside_removals("image", "ls", "--filter", f"reference={pattern}", *form).split()


def site_images(site: str) -> list[str]:
    """Names of all images that hold the root of a site's resized instance."""
    return image_names(f"localhost/strata-{site}/*")


def site_volumes(site: str) -> list[str]:
    """Names of all volumes of a site."""
    return podman("volume", "ls", "--filter", f"label={SITE_LABEL}={site}", "--format", "{{.Name}}").split()
