"""Makes and removes what a molecule scenario with a site file runs on: `scenario.py create|push|destroy SITE_FILE`.

Containers, networks, processes and state are made and removed by the code that does so for a lab site, so they carry
the site's name and label; machines of the site file, which a lab does not have, are made here.
"""

from __future__ import annotations

import ipaddress
import shutil
import sys
from pathlib import Path

from strata.access.podman import SITE_LABEL, podman
from strata.access.ssh import wait_for_ssh
from strata.engine.cluster_installer import cluster_tools
from strata.engine.keys import ensure_ssh_key
from strata.engine.up_steps import pod_images_step
from strata.images.pod_images import ensure_site_bases
from strata.models.hosts import Machine
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.toolchain import ensure
from strata_lab import controller, host
from strata_lab.cards import simulated_cards
from strata_lab.copy_in import copy_in
from strata_lab.images import ensure_node_image

RELEASE = "12"
VOLUMES = {"containerd": "/var/lib/containerd", "kubelet": "/var/lib/kubelet"}
"""As the lab's nova driver makes them: overlay does not stack on the container's overlay root."""


def create(context: SiteContext) -> None:
    """Starts the scenario's containers; they answer on SSH when this returns."""
    ensure_ssh_key(context.paths)
    assert context.secrets.ca
    if context.site.cluster is not None:
        ensure(cluster_tools(context), Silent())
        ensure_site_bases(context.site, Silent())
    if context.site.hosts.machines:
        host.prepare(context.site.name)
        _create_machines(context)
        wait_for_ssh(context, Silent())


def destroy(context: SiteContext) -> None:
    """Removes everything; does nothing where there is nothing."""
    controller.destroy(context.site, context.paths, Silent())
    shutil.rmtree(context.paths.root, ignore_errors=True)


def _create_machines(context: SiteContext) -> None:
    site = context.site
    image = ensure_node_image(RELEASE, Silent())
    network, label = f"strata-{site.name}", f"{SITE_LABEL}={site.name}"
    subnet = ipaddress.ip_interface(f"{site.hosts.machines[0].address}/24").network
    podman("network", "create", "--disable-dns", "--subnet", str(subnet), "--label", label, network)
    for machine in site.hosts.machines:
        name = f"{network}-{machine.name}"
        volumes: list[str] = []
        for volume, target in VOLUMES.items():
            podman("volume", "create", "--label", label, f"{name}-{volume}")
            volumes += ["--volume", f"{name}-{volume}:{target}:exec,dev,suid"]
        podman(
            *("create", "--name", name, "--hostname", machine.name, *controller.BOOT, "--device", "/dev/kmsg"),
            *("--label", label, "--network", f"{network}:ip={machine.address}", *volumes, image),
        )
        copy_in(name, _files(context, machine))
        podman("start", name)


def _files(context: SiteContext, machine: Machine) -> dict[str, str]:
    """Path to content: root's key, and the cards as in /sys/bus/pci/devices."""
    files = {"root/.ssh/authorized_keys": context.paths.ssh_key.with_suffix(".pub").read_text()}
    for card in simulated_cards(context.site.accelerators, machine.accelerators):
        content = {
            "vendor": f"0x{card.accelerator.vendor_id}",
            "device": f"0x{card.accelerator.product_id}",
            "class": f"0x{card.class_code}",
            "numa_node": card.numa_node,
        }
        files |= {f"etc/strata/pci/devices/{card.address}/{name}": f"{value}\n" for name, value in content.items()}
    return files


if __name__ == "__main__":
    command, site_file = sys.argv[1:]
    loaded = SiteContext.load(Path(site_file))
    if command == "create":
        create(loaded)
        print("created")
    elif command == "push":
        print(f"pushed, {pod_images_step(loaded)(Silent()).changed} changed")
    else:
        existed = loaded.paths.root.exists()
        destroy(loaded)
        print("destroyed" if existed else "nothing there")
