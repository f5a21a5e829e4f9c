"""How SSH gets to the hosts of a site with a bastion, for OpenSSH and for Ansible, read by the real ssh."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from strata.access import host_keys
from strata.access.ssh import ssh_line
from strata.engine.up_steps import registry_address
from strata.inventory.build import build_inventory
from strata.site.context import SiteContext
from strata.site.outputs import CloudOutputs, InstanceOutput
from strata.site_file.inventories import find_site

EDGE, WORKER, CONTROL = "10.79.0.10", "10.79.0.11", "10.79.0.12"
OUTSIDE = "203.0.113.7"


@pytest.fixture
def context(state_directory: Path) -> SiteContext:
    """campus with its bastion, a control plane and a worker."""
    loaded = SiteContext.load(find_site("campus"))
    instances = {
        name: InstanceOutput(id=name, name=name, address=address, flavor="f", roles=roles, floating_ip=outside)
        for name, address, roles, outside in (
            ("edge-1", EDGE, ("registry", "load_balancer"), OUTSIDE),
            ("control-1", CONTROL, ("kube_control_plane",), None),
            ("worker-1", WORKER, ("kube_node",), None),
        )
    }
    CloudOutputs(instances=instances, networks={}).save(loaded.paths.create())
    loaded.paths.ssh_key.touch(mode=0o600)  # ssh passes over a key that is missing
    return loaded


def resolved(line: list[str]) -> dict[str, str]:
    """What OpenSSH makes of a command line; connects to nothing."""
    done = subprocess.run([line[0], "-G", "-F", "none", *line[1:]], capture_output=True, text=True, check=True)
    return dict(entry.split(" ", 1) for entry in done.stdout.splitlines() if " " in entry)


def test_the_bastion_is_reached_at_its_floating_ip(context: SiteContext) -> None:
    line, user = ssh_line(context, EDGE)
    seen = resolved(line)
    assert (user, seen["user"], seen["hostname"], seen["hostkeyalias"]) == ("debian", "debian", OUTSIDE, EDGE)
    assert "proxycommand" not in seen


def test_others_are_reached_through_it(context: SiteContext) -> None:
    line, _ = ssh_line(context, WORKER)
    seen = resolved(line)
    assert seen["hostname"] == WORKER
    jump = resolved(shlex.split(seen["proxycommand"].replace("[%h]:%p", f"{WORKER}:22")))
    assert (jump["user"], jump["hostname"], jump["hostkeyalias"]) == ("debian", OUTSIDE, EDGE)
    assert jump["identityfile"] == str(context.paths.ssh_key)
    assert jump["userknownhostsfile"] == str(context.paths.known_hosts)


def test_ansible_goes_the_same_way(context: SiteContext) -> None:
    inventory = build_inventory(context.site, context.cloud_outputs, context.site_file)
    assert inventory.variables["all"]["ansible_user"] == "debian"
    assert inventory.variables["all"]["ansible_become"] is True
    for name, address in (("edge-1", EDGE), ("worker-1", WORKER)):
        variables = inventory.hosts[name]
        assert variables["ansible_host"] == address
        own = resolved(["ssh", *shlex.split(str(variables["ansible_ssh_common_args"])), f"debian@{address}"])
        same = resolved(ssh_line(context, address)[0])
        for key in ("hostname", "hostkeyalias", "proxycommand", "userknownhostsfile"):
            assert own.get(key) == same.get(key)


def test_clients_outside_connect_to_floating_ips(context: SiteContext) -> None:
    """Images are pushed there, with a certificate for it; the kubeconfig names it."""
    assert registry_address(context) == OUTSIDE
    variables = build_inventory(context.site, context.cloud_outputs, context.site_file).variables
    assert variables["kube_control_plane"]["kube_control_plane_external_address"] == OUTSIDE
    certificate = str(variables["registry"]["registry_certificate"])
    assert repr([EDGE, OUTSIDE, "127.0.0.1"]) in certificate


def test_host_keys_of_the_last_boot_are_read_from_the_console() -> None:
    """Debian's console log, with the kernel's time stamps and carriage returns."""
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE"
    block = "-----BEGIN SSH HOST KEY KEYS-----\r\n{} root@edge-1\r\n-----END SSH HOST KEY KEYS-----\r\n"
    console = f"booting\r\n{block.format('ssh-rsa AAAAold')}[  12.3] cloud-init: done\r\n{block.format(key)}login:"
    assert host_keys.console_keys(console) == [key]
    assert host_keys.console_keys("booting") == []
    assert host_keys.console_keys("-----BEGIN SSH HOST KEY KEYS-----\nssh-rsa AAAA") == []
