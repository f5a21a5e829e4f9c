"""The containers that are instances: names, volumes, and how one is made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nova.virt.lab import configdrive, limits, networks
from nova.virt.lab.options import CONF, Device
from nova.virt.lab.podman import SET_ASIDE, podman, remove, remove_images
from nova.virt.lab.seed import Seed
from oslo_concurrency import lockutils

IMAGE_PROPERTY = "strata_image"
"""Property of the glance image that names the root filesystem in podman."""

VOLUMES = {"containerd": "/var/lib/containerd", "kubelet": "/var/lib/kubelet"}
"""Directories on volumes of their own: overlay does not stack on the container's overlay root."""

BOOT = (
    *("--systemd=false", "--env", "container=podman", "--stop-signal", "SIGRTMIN+3"),
    *("--privileged", "--cgroupns=private", "--device", "/dev/kmsg"),
    *("--tmpfs", "/run", "--tmpfs", "/run/lock", "--tmpfs", "/tmp"),  # noqa: S108  # mount points in the container
    *("--ulimit", "nofile=20000:20000", "--ulimit", "nproc=20000:20000"),
    # plain files from the seed instead of podman's mounts: roles may replace them
    *("--no-hosts", "--dns", "none"),
    # the serial console: /dev/console inside, kept by podman
    *("--tty", "--log-driver", "k8s-file", "--log-opt", "max-size=1mb"),
)


def container_name(instance: Any) -> str:
    """Name of an instance's container: unique, and of the site."""
    return f"strata-{CONF.lab.site}-{instance.uuid}"


def set_aside_name(instance: Any) -> str:
    """Name of the container that a resize or a rescue leaves for the way back."""
    return f"{container_name(instance)}{SET_ASIDE}"


def image_name(instance: Any) -> str:
    """podman's name, without a tag, of images that hold an instance's own root filesystem."""
    return f"localhost/strata-{CONF.lab.site}/{instance.uuid}"


def volume_names(instance: Any) -> list[str]:
    """Names of an instance's volumes."""
    return [f"{container_name(instance)}-{name}" for name in VOLUMES]


def root_filesystem(instance: Any, image_meta: Any) -> str:
    """podman image that the instance starts from.

    Raises:
        ValueError: the glance image does not say.
    """
    # nova keeps image properties that it does not know in the instance's system metadata only
    reference = (instance.system_metadata or {}).get(f"image_{IMAGE_PROPERTY}")
    if not reference:
        raise ValueError(f"image {image_meta.name}: property {IMAGE_PROPERTY} is not set")
    return str(reference)


def create(
    instance: Any,
    host: str,
    image: str,
    ports: list[Any],
    claimed: list[Device],
    injected_files: Mapping[str, Any],
    *,
    first: bool = True,
    mounts: tuple[str, ...] = (),
) -> str:
    """Makes an instance's container, with its network, limits and seed, but does not start it.

    Args:
        instance: nova's.
        host: the hypervisor.
        image: podman's reference of the root filesystem.
        ports: nova's network_info.
        claimed: PCI devices of the instance.
        injected_files: path to content.
        first: whether the image is the one that the user chose, not the instance's own root.
        mounts: further options of `podman create`.

    Returns:
        The container's name.

    Raises:
        PodmanError: podman refused.
    """
    name = container_name(instance)
    seed = Seed(
        hostname=instance.hostname,
        addresses=[networks.ipv4(vif)["ips"][0]["address"] for vif in ports],
        name_servers=networks.name_servers(ports) or own_name_servers(),
        devices=claimed,
        config_drive=configdrive.files(instance, ports, injected_files),
    )
    options = ["create", "--name", name, "--hostname", instance.hostname, *BOOT]
    # systemd makes it the machine's id
    options += ["--env", f"container_uuid={instance.uuid}"]
    options += [*_labels(instance, host, claimed), *_volumes(instance), *mounts]
    # one lock for choosing CPUs or a network and using them: another nova-compute may be doing the same
    with lockutils.lock(networks.LOCK, external=True):
        podman(*options, *limits.arguments(instance.flavor), *networks.arguments(ports), image)
    podman("cp", "-a=false", "-", f"{name}:/", stdin=seed.archive(first=first))
    return name


def remove_all(instance: Any) -> None:
    """Removes everything of an instance that podman has."""
    name = container_name(instance)
    # the rescue system first: it has the other one's root mounted
    remove([name, set_aside_name(instance)], _existing_volumes(instance))
    remove_images(image_name(instance))


def own_name_servers() -> list[str]:
    """Name servers of the machine that nova-compute runs on."""
    lines = Path("/etc/resolv.conf").read_text().splitlines()
    return [line.split()[1] for line in lines if line.startswith("nameserver ")]


def _labels(instance: Any, host: str, claimed: list[Device]) -> list[str]:
    labels = {
        "strata.site": CONF.lab.site,
        "strata.hypervisor": host,
        "strata.instance": instance.uuid,
        "strata.instance_name": instance.name,
        "strata.display_name": instance.display_name or "",
        "strata.vcpus": str(instance.flavor.vcpus),
        "strata.memory_mb": str(instance.flavor.memory_mb),
        "strata.disk_gb": str(instance.flavor.root_gb),
        "strata.devices": ",".join(device.address for device in claimed),
    }
    return [part for key, value in labels.items() for part in ("--label", f"{key}={value}")]


def _volumes(instance: Any) -> list[str]:
    options: list[str] = []
    there = _existing_volumes(instance)
    for name, target in zip(volume_names(instance), VOLUMES.values(), strict=True):
        if name not in there:
            podman("volume", "create", "--label", f"strata.site={CONF.lab.site}", name)
        options += ["--volume", f"{name}:{target}:exec,dev,suid"]
    return options


def _existing_volumes(instance: Any) -> list[str]:
    listing: str = podman("volume", "ls", "--format", "{{.Name}}", "--filter", f"name={container_name(instance)}")
    return listing.split()
