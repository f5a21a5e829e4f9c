"""How SSH gets to a host: as whom, and through which bastion."""

from __future__ import annotations

import shlex
from pathlib import Path

from strata.models.site import Site
from strata.site.host_list import Host, hosts
from strata.site.outputs import CloudOutputs
from strata.site.paths import SitePaths

ROOT = "root"
CONNECT_SECONDS = 10
"""In which a host must let SSH in, with the banner of its sshd: one under load needs more than 3 s, and is not lost."""


def ssh_options(paths: SitePaths, key: Path | None = None) -> list[str]:
    """Options of every `ssh` to a host of the site.

    Args:
        paths: the site's.
        key: private key; None for the site's.
    """
    settings = (
        "BatchMode=yes",
        f"UserKnownHostsFile={paths.known_hosts}",
        "StrictHostKeyChecking=accept-new",
        "LogLevel=ERROR",
        f"ConnectTimeout={CONNECT_SECONDS}",
    )
    return ["-i", str(key or paths.ssh_key), *(word for setting in settings for word in ("-o", setting))]


def login_user(site: Site, outputs: CloudOutputs | None, address: str) -> str:
    """The user that logs in at an address: root on what the provider itself runs."""
    return site.hosts.ssh_user if address in {host.address for host in hosts(site, outputs)} else ROOT


def route(
    site: Site, outputs: CloudOutputs | None, paths: SitePaths, address: str, key: Path | None = None
) -> list[str]:
    """Settings of OpenSSH (`Name=value`) by which a host of the site is reached; none where it is reached directly.

    Addresses stay those inside the site: a floating IP is only where to connect, and known_hosts does not name it.

    Args:
        site: the model.
        outputs: of the cloud layer.
        paths: the site's.
        address: of the host, inside the site.
        key: private key; None for the site's.
    """
    known = {host.address: host for host in hosts(site, outputs)}
    host = known.get(address)
    if host is None:
        return []
    bastion = next((h for h in known.values() if h.name == site.hosts.bastion), None)
    if bastion is None or host == bastion:
        return _outside(host)
    words = ["ssh", *ssh_options(paths, key)]
    for setting in _outside(bastion):
        words += ["-o", setting]
    words += ["-W", "[%h]:%p", f"{site.hosts.ssh_user}@{bastion.address}"]
    return [f"ProxyCommand={shlex.join(words)}"]


def _outside(host: Host) -> list[str]:
    if host.floating_ip is None:
        return []
    return [f"HostName={host.floating_ip}", f"HostKeyAlias={host.address}"]


def as_root(user: str, command: str) -> str:
    """A shell command as root.

    Args:
        user: who logs in.
        command: for a shell.
    """
    return command if user == ROOT else f"sudo -n sh -c {shlex.quote(command)}"
