"""The network agent's container, as the host sees it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from strata.access.podman import SITE_LABEL, container_label, container_status, exists, podman
from strata.models.site import Site
from strata.progress import Progress
from strata.site.outputs import write_private
from strata_lab import images, podman_service
from strata_lab.backup_store import store_address
from strata_lab.filesystems import controller_filesystem
from strata_lab.openstack_controller import controller_address

SOURCES = Path(__file__).resolve().parents[1]
"""The package `strata_lab`, which the container mounts."""
CODE_LABEL = "strata.network_agent"
RESULTS = Path("/var/lib/cni/results")
"""Where podman's network plugins write which interface they made for whom."""


def container_name(site_name: str) -> str:
    """Name of the agent's container."""
    return f"strata-{site_name}-network"


def code() -> str:
    """Names the agent's code: another one needs another process."""
    content = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        content.update(file.name.encode() + file.read_bytes())
    return content.hexdigest()[:12]


def up(site: Site, metadata_secret: str, progress: Progress) -> bool:
    """Has the agent running with the code that is here.

    Args:
        site: with a lab cloud.
        metadata_secret: shared with nova; kept in a file that only root sees, gone with `down`.
        progress: receives status messages.

    Returns:
        Whether anything had to be done.

    Raises:
        UserError: podman refused the container.
    """
    # neutron's own directory is below it
    directory = podman_service.make_runtime_directory(site.name)
    write_private(directory / "metadata-secret", metadata_secret)
    name = container_name(site.name)
    status = container_status(name)
    if status is not None and container_label(name, CODE_LABEL) != _wanted(site):
        podman("rm", "--force", "--time", "0", name)
        status = None
    if status == "running":
        return False
    if status is None:
        image = images.ensure_controller_image(progress)
        progress.update(f"creating {name}")
        _create(site, name, image)
    podman("start", name)
    return True


def remove(site_name: str) -> bool:
    """Removes the container and takes its rules out of the kernel; returns whether there was a container."""
    name = container_name(site_name)
    image = controller_filesystem().reference
    existed = exists("container", name)
    if existed:
        # its own image: that of the code that is here may not be built yet
        image = podman("container", "inspect", "--format", "{{.Image}}", name).strip()
        podman("rm", "--force", "--time", "0", name)
    # without an image there never was an agent
    if exists("image", image):
        podman("run", "--rm", *_surroundings(), image, *_command("remove", site_name))
    return existed


def _wanted(site: Site) -> str:
    assert site.cloud is not None
    prefix = f"{code()}-{site.cloud.control_network}"
    return "-".join((prefix, *_store_options(site)[1::2]))


def _store_options(site: Site) -> list[str]:
    """Whom the agent lets reach the backup store."""
    address = store_address(site)
    if address is None or site.cloud is None:
        return []
    clients = (
        part for network in site.cloud.networks if network.cidr.version == 4 for part in ("--client", str(network.cidr))
    )
    return ["--backup-store", address, *clients]


def _surroundings() -> list[str]:
    return [
        # it acts on the host's interfaces, and on nothing else of the host
        *("--network", "host", "--cap-drop", "all", "--cap-add", "NET_ADMIN,NET_RAW,NET_BIND_SERVICE"),
        *("--ulimit", "nofile=1024:4096", "--ulimit", "nproc=1024:4096"),
        *("--cap-add", "DAC_READ_SEARCH", "--security-opt", "label=disable", "--systemd=false"),
        *("--volume", f"{SOURCES}:/opt/strata/strata_lab:ro", "--env", "PYTHONPATH=/opt/strata"),
        *("--env", "PYTHONDONTWRITEBYTECODE=1", "--env", "PYTHONUNBUFFERED=1", "--stop-signal", "SIGTERM"),
    ]


def _command(command: str, site_name: str) -> list[str]:
    return ["/usr/bin/python3", "-m", "strata_lab.network", command, "--site", site_name]


def _create(site: Site, name: str, image: str) -> None:
    assert site.cloud is not None
    control = site.cloud.control_network
    # podman's own plugins make it for the first container with a network, which on a new machine comes later
    RESULTS.mkdir(mode=0o700, parents=True, exist_ok=True)
    podman(
        *("create", "--name", name, "--restart", "always"),
        *("--label", f"{SITE_LABEL}={site.name}", "--label", "strata.role=network"),
        *("--label", f"{CODE_LABEL}={_wanted(site)}", *_surroundings()),
        *("--volume", f"{podman_service.runtime_directory(site.name)}:/run/strata"),
        *("--volume", f"{RESULTS}:{RESULTS}:ro"),
        *(image, *_command("run", site.name)),
        *("--control-network", str(control), "--controller", controller_address(site)),
        *_store_options(site),
    )
