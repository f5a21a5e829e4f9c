"""The container that OpenStack runs in, and everything of a lab site that podman holds."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
import subprocess
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

import yaml

from strata.access.podman import (
    SITE_LABEL,
    PodmanError,
    container_status,
    exists,
    list_containers,
    podman,
    site_containers,
    site_images,
    site_networks,
    site_volumes,
)
from strata.cloud.clouds_file import entries
from strata.errors import UserError
from strata.images.build import remove_cut_off_builds
from strata.models.site import Site
from strata.progress import Progress
from strata.retry import wait_until
from strata.site.outputs import write_private
from strata.site.paths import SitePaths, cache_directory
from strata.site.secrets import SecretStore
from strata_lab import backup_store, container_recovery, host, images, podman_service
from strata_lab.copy_in import copy_in
from strata_lab.network import container as network
from strata_lab.openstack_controller import METADATA_SECRET, controller_address
from strata_lab.paths import ROLES

SSH_SECONDS = 60.0
STOP_SECONDS = 30

BOOT = (
    # FACTS: with podman's own systemd mode containers of a hybrid host share their cgroups
    *("--systemd=false", "--env", "container=podman", "--stop-signal", "SIGRTMIN+3"),
    *("--privileged", "--cgroupns=private"),
    *("--tmpfs", "/run", "--tmpfs", "/run/lock", "--tmpfs", "/tmp"),  # noqa: S108  # mount points in the container
    *("--ulimit", "nofile=20000:20000", "--ulimit", "nproc=20000:20000"),
)


@dataclass(frozen=True)
class InstanceStatus:
    """An instance's container.

    Args:
        name: the server's name in nova.
        hypervisor: where nova put it.
        status: podman's.
        devices: PCI addresses that it was handed.
    """

    name: str
    hypervisor: str
    status: str
    devices: tuple[str, ...]


@dataclass(frozen=True)
class LabStatus:
    """What of a lab site runs.

    Args:
        controller: podman's status of the controller; None where there is none.
        podman_service: whether the service that makes instances runs.
        instances: by name.
    """

    controller: str | None
    podman_service: bool
    instances: tuple[InstanceStatus, ...]


def container_name(site: Site) -> str:
    """Name of the controller's container."""
    return f"strata-{site.name}-controller"


def network_name(site: Site) -> str:
    """Name of the control network in podman."""
    return f"strata-{site.name}-control"


def up(site: Site, paths: SitePaths, progress: Progress) -> bool:
    """Has the controller's container running and answering on SSH.

    Args:
        site: with a lab cloud.
        paths: of the site; its SSH key must exist.
        progress: receives status messages.

    Returns:
        Whether anything had to be done.

    Raises:
        UserError: no SSH key, or the container does not come up.
    """
    public_key = paths.ssh_key.with_suffix(".pub")
    if not public_key.exists():
        raise UserError(f"{public_key} does not exist", fix=f"strata up {site.name} makes it first")
    progress.update("preparing the host")
    changed = host.prepare(site.name)
    if settled := container_recovery.reconcile(site.name):
        progress.update(f"{len(settled)} containers were not in the state that podman reported")
    name = container_name(site)
    if not exists("container", name):
        image = images.ensure_controller_image(progress)
        progress.update(f"creating {name}")
        _create(site, paths, image, public_key.read_text())
        changed = True
    # before the container: its nova-compute looks for the socket
    changed = podman_service.start(paths) or changed
    # before the instances: without it nothing keeps them apart
    secret = SecretStore.open(site.name).get(METADATA_SECRET)
    changed = network.up(site, secret, progress) or changed
    # before the hosts, which make up for a backup that was missed
    changed = backup_store.start(site) or changed
    if container_status(name) != "running":
        progress.update(f"starting {name}")
        podman("start", name)
        changed = True
    _wait_for_ssh(site, progress)
    return changed


def down(site: Site, paths: SitePaths, progress: Progress) -> bool:
    """Stops controller, instances and podman's service; all data stays. Returns whether anything ran."""
    changed = bool(container_recovery.reconcile(site.name))
    name = container_name(site)
    if container_status(name) == "running":
        # first: nova would take a stopped instance for one that its user shut down
        progress.update(f"stopping {name}")
        podman("stop", "--time", str(STOP_SECONDS), name)
        changed = True
    instances = [name for name in site_containers(site.name) if name != network.container_name(site.name)]
    running = [i for i in instances if container_status(i) == "running"]
    if running:
        progress.update(f"stopping {len(running)} instances")
        podman("stop", "--time", "15", *running)
        changed = True
    changed = network.remove(site.name) or changed
    return podman_service.stop(paths) or changed


def destroy(site: Site, paths: SitePaths, progress: Progress) -> bool:
    """Removes everything of the site that podman holds and what was changed on the host.

    Returns:
        Whether there was anything.

    Raises:
        UserError: something could not be removed.
    """
    changed = bool(container_recovery.reconcile(site.name))
    name = container_name(site)
    if exists("container", name):
        progress.update(f"removing {name}")
        podman("rm", "--force", "--time", "0", "--volumes", name)
        changed = True
    changed = network.remove(site.name) or changed
    changed = podman_service.stop(paths) or changed
    for kind, names_of, options in (
        ("container", site_containers, ("--force", "--time", "0", "--volumes")),
        ("image", site_images, ("--force",)),
        ("volume", site_volumes, ("--force",)),
        ("network", site_networks, ("--force",)),
    ):
        if names := names_of(site.name):
            progress.update(f"removing {len(names)} {kind}s")
            try:
                podman(kind, "rm", *options, *names)
            except PodmanError as error:
                fix = f"podman {kind} rm --force {' '.join(names)}"
                raise UserError(str(error), fix=fix, see="an-image-cannot-be-built") from error
            changed = True
    changed = bool(remove_cut_off_builds()) or changed
    container_recovery.forget_networks(site.name)
    paths.clouds_file.unlink(missing_ok=True)
    if left := host.restore(site.name):
        progress.update(f"left on the host because others use it: {'; '.join(left)}")
    return changed


def status(site: Site, paths: SitePaths) -> LabStatus:
    """What runs now."""
    instances = []
    for container in list_containers("--filter", f"label={SITE_LABEL}={site.name}"):
        labels = container["Labels"]
        # what a resize or a rescue set aside has another name than its instance
        if labels.get("strata.instance") and container["Names"] == [f"strata-{site.name}-{labels['strata.instance']}"]:
            devices = tuple(d for d in labels["strata.devices"].split(",") if d)
            entry = InstanceStatus(
                labels["strata.display_name"], labels["strata.hypervisor"], container["State"], devices
            )
            instances.append(entry)
    return LabStatus(
        controller=container_status(container_name(site)),
        podman_service=podman_service.running_pid(paths) is not None,
        instances=tuple(sorted(instances, key=lambda i: i.name)),
    )


def write_clouds_file(site: Site, paths: SitePaths, password: str) -> bool:
    """Writes clouds.yaml for the administrator, alone and inside the site's project; returns whether it changed.

    Args:
        site: the entries are called as strata.cloud.clouds_file states.
        paths: of the file; its mode is 0600.
        password: of the user admin.
    """
    assert site.cloud is not None
    needed = entries(site.name, site.cloud)
    clouds: dict[str, object] = {}
    for entry, project in ((needed.administrator, "admin"), (needed.project, site.cloud.project.name)):
        auth = {"auth_url": f"http://{controller_address(site)}:5000/v3", "username": "admin", "password": password}
        auth |= {"project_name": project, "user_domain_name": "Default", "project_domain_name": "Default"}
        clouds[entry] = {"auth": auth, "region_name": "RegionOne", "identity_api_version": 3}
    return write_private(paths.clouds_file, yaml.safe_dump({"clouds": clouds}, sort_keys=False))


def environment_directory() -> Path:
    """Where the controller's Python environment is kept between sites: one directory per lock and patch."""
    files = ROLES / "openstack_common" / "files"
    content = b"".join((files / name).read_bytes() for name in ("requirements.lock", "oslo-messaging-lp2035113.patch"))
    return cache_directory() / "openstack" / hashlib.sha256(content).hexdigest()[:12]


def _create(site: Site, paths: SitePaths, image: str, public_key: str) -> None:
    assert site.cloud is not None
    control = site.cloud.control_network
    assert control is not None
    address = controller_address(site)
    _ensure_network(site, IPv4Network(control))
    environment = environment_directory()
    environment.mkdir(parents=True, exist_ok=True)
    runtime = podman_service.make_runtime_directory(site.name)
    uv = uv_program()
    cache = Path(subprocess.run([uv, "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip())
    cache.mkdir(parents=True, exist_ok=True)
    mounts = {runtime: "/run/strata", environment: "/opt/openstack", cache: "/root/.cache/uv"}
    if paths.known_hosts.exists():
        # the new container has new host keys
        command = ["ssh-keygen", "-q", "-R", address, "-f", str(paths.known_hosts)]
        subprocess.run(command, capture_output=True, check=False)
    # it gets its name when it is complete: killed before that, the next call restarts
    name = f"{container_name(site)}-new"
    podman("rm", "--force", "--ignore", name)
    try:
        podman(
            *("create", "--name", name, "--hostname", "controller", *BOOT),
            *("--label", f"{SITE_LABEL}={site.name}", "--label", "strata.role=controller"),
            *("--network", f"{network_name(site)}:ip={address}"),
            *(part for source, target in mounts.items() for part in ("--volume", f"{source}:{target}")),
            image,
        )
        podman("cp", str(uv), f"{name}:/usr/local/bin/uv")
        copy_in(name, {"root/.ssh/authorized_keys": public_key})
        podman("rename", name, container_name(site))
    except BaseException:
        podman("rm", "--force", "--ignore", name)
        raise


def _ensure_network(site: Site, control: IPv4Network) -> None:
    name = network_name(site)
    if exists("network", name):
        return
    try:
        podman(
            *("network", "create", "--disable-dns", "--subnet", str(control), "--gateway", str(control[1])),
            *("--label", f"{SITE_LABEL}={site.name}", name),
        )
    except PodmanError as error:
        raise UserError(
            f"podman refused the network {control}: {error}",
            fix="choose another cloud.control_network; `podman network ls` shows what is in use",
        ) from error


def uv_program() -> str:
    """The uv binary itself; what is on PATH may be a script that finds it.

    Raises:
        UserError: uv is not installed.
    """
    program = os.environ.get("UV") or shutil.which("uv")
    if program is None:
        raise UserError("uv is not installed", fix="python3 -m pip install uv, or run scripts/lab, which installs it")
    with Path(program).open("rb") as stream:
        if stream.read(4) == b"\x7fELF":
            return program
    command = [program, "run", "--no-project", "python", "-c", "import os; print(os.environ['UV'])"]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout.strip()


def _wait_for_ssh(site: Site, progress: Progress) -> None:
    address = controller_address(site)

    def silent() -> str | None:
        with contextlib.suppress(OSError), socket.create_connection((address, 22), timeout=2) as connection:
            if connection.recv(4) == b"SSH-":
                return None
        return f"SSH on {address}"

    if wait_until(silent, SSH_SECONDS, progress, pause=0.1):
        raise UserError(
            f"no SSH on the controller ({address}) after {SSH_SECONDS:.0f} s",
            fix=f"podman exec {container_name(site)} journalctl -b shows what it does",
        )
