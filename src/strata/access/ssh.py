"""Reaches the hosts of a site over SSH."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from strata.access.host_keys import learn_host_keys
from strata.access.route import as_root, login_user, route, ssh_options
from strata.errors import UserError
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site.host_list import hosts
from strata.site.outputs import write_private
from strata.site.paths import SitePaths

COMMAND_SECONDS = 20.0
"""How long a command may take unless more is asked for."""
UNREACHABLE = 255
"""Exit status of ssh itself, which reached no shell."""
SSH_SECONDS = 120.0
"""How long a fresh instance may take to answer, in seconds."""
CHANGED_KEY = "Host key verification failed"
"""What ssh prints for a host whose key is not the known one."""
CLOSE_SECONDS = 2.0
"""How long ssh may take to end. OpenSSH 9.2 sees a signal that comes just before it polls at the next packet only,
which in Debian's batch mode is one that it sends itself after 300 s."""
FORWARD_SECONDS = 20.0
"""How long ssh may take until it forwards a port, in seconds."""


class Unreachable(Exception):
    """A host did not respond; the message gives the reason."""


def run_ssh(
    context: SiteContext,
    address: str,
    command: str,
    *,
    text: str = "",
    seconds: float = COMMAND_SECONDS,
    options: Sequence[str] = (),
    key: Path | None = None,
    root: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Runs a command on a host, whatever its exit status; ssh's own is UNREACHABLE.

    Args:
        context: the site.
        address: of the host.
        command: for its shell.
        text: for the command's standard input.
        seconds: how long it may take.
        options: of ssh, which win over the site's.
        key: private key; None for the site's.
        root: whether root runs it, or the user that logs in.

    Raises:
        Unreachable: no answer in time.
    """
    line, user = ssh_line(context, address, options=options, key=key)
    line.append(as_root(user, command) if root else command)
    try:
        return subprocess.run(line, input=text, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise Unreachable(f"no answer within {seconds:.0f} s") from None


def ssh_line(
    context: SiteContext, address: str, *, options: Sequence[str] = (), key: Path | None = None
) -> tuple[list[str], str]:
    """The `ssh` that reaches a host, without a command, and the user that it logs in as.

    Args:
        context: the site.
        address: of the host, inside the site.
        options: of ssh, which win over the site's.
        key: private key; None for the site's.
    """
    site, outputs, paths = context.site, context.cloud_outputs, context.paths
    way = [word for setting in route(site, outputs, paths, address, key) for word in ("-o", setting)]
    user = login_user(site, outputs, address)
    return ["ssh", *options, *ssh_options(paths, key), *way, f"{user}@{address}"], user


@contextlib.contextmanager
def forwarded_port(context: SiteContext, via: str, address: str, port: int) -> Iterator[int]:
    """A port on this machine's loopback behind which a service answers as it does to one of the hosts.

    Args:
        context: the site.
        via: address of the host that connects to the service.
        address: of the service.
        port: of the service.

    Raises:
        UserError: ssh refused.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        own: int = free.getsockname()[1]
    options = [
        "-o",
        "ExitOnForwardFailure=yes",
        "-o",
        "ControlPath=none",
        "-N",
        "-L",
        f"127.0.0.1:{own}:{address}:{port}",
    ]
    line, user = ssh_line(context, via, options=options)
    with subprocess.Popen(line, stdin=subprocess.DEVNULL) as tunnel:
        try:
            end = time.monotonic() + FORWARD_SECONDS
            while True:
                with contextlib.suppress(ConnectionRefusedError):
                    socket.create_connection(("127.0.0.1", own), timeout=FORWARD_SECONDS).close()
                    break
                if tunnel.poll() is not None or time.monotonic() > end:
                    raise UserError(
                        f"no SSH tunnel by {via} to {address}:{port}", fix=f"`ssh {user}@{via}` with the site's key"
                    )
                time.sleep(0.1)
            yield own
        finally:
            tunnel.terminate()
            try:
                tunnel.wait(timeout=CLOSE_SECONDS)
            except subprocess.TimeoutExpired:
                tunnel.kill()


def host_addresses(context: SiteContext) -> dict[str, str]:
    """Name and address of every host of the site, those that the provider itself runs excepted."""
    return {host.name: host.address for host in hosts(context.site, context.cloud_outputs)}


def all_addresses(context: SiteContext) -> dict[str, str]:
    """Name and address of every host, those that the provider itself runs first."""
    return {host.name: host.address for host in context.provider.hosts()} | host_addresses(context)


def forget_changed_keys(paths: SitePaths, ids: Mapping[str, str]) -> None:
    """Removes the known host key of each re-created instance.

    Args:
        paths: the site's.
        ids: address to instance id; compared with those seen last.
    """
    seen_file = paths.root / "known_instances"
    seen = dict(line.split() for line in seen_file.read_text().splitlines()) if seen_file.exists() else {}
    for address, identifier in ids.items():
        if seen.get(address) != identifier:
            forget_host_key(paths, address)
    write_private(seen_file, "".join(f"{a} {i}\n" for a, i in sorted(ids.items())))


def forget_host_key(paths: SitePaths, address: str) -> None:
    """Removes the known host key of an address; the next connection records the one that it meets.

    Args:
        paths: the site's.
        address: of the host, inside the site.
    """
    if paths.known_hosts.exists():
        command = ["ssh-keygen", "-q", "-R", address, "-f", str(paths.known_hosts)]
        subprocess.run(command, capture_output=True, check=False)


def host_key_changed(context: SiteContext, address: str) -> bool:
    """Whether a host answers with another key than the known one."""
    return CHANGED_KEY in _ssh(context, address).communicate()[1]


def is_known(known_hosts: Path, address: str) -> bool:
    """Whether a file of known hosts has a key of an address."""
    command = ["ssh-keygen", "-F", address, "-f", str(known_hosts)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def remember_console_keys(context: SiteContext, servers: Mapping[str, str], progress: Progress) -> None:
    """Records the host keys that new instances wrote to their consoles.

    Args:
        context: the site.
        servers: address to instance id.
        progress: receives status messages.
    """
    known = context.paths.known_hosts
    if new := {address: server for address, server in servers.items() if not is_known(known, address)}:
        learned = learn_host_keys(context, new, progress)
        before = known.read_text() if known.exists() else ""
        write_private(known, before + "".join(f"{a} {key}\n" for a, keys in learned.items() for key in keys))


def add_known_hosts(context: SiteContext, playbook: str) -> None:
    """Has the keys of a playbook's hosts in known_hosts, those that answer: mitogen's ssh takes no new ones.

    Args:
        context: the site.
        playbook: its name.
    """
    before = context.playbooks[playbook].before_cloud
    own = [host.address for host in context.provider.hosts()] if before else host_addresses(context).values()
    known = context.paths.known_hosts
    calls = [_ssh(context, address) for address in own if not is_known(known, address)]
    for call in calls:
        call.communicate()


def _ssh(context: SiteContext, address: str) -> subprocess.Popen[str]:
    """A connection to a host that does nothing."""
    return subprocess.Popen(
        [*ssh_line(context, address)[0], "true"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_ssh(context: SiteContext, progress: Progress) -> None:
    """Returns when every host answers on SSH.

    Raises:
        UserError: some do not within two minutes; names them and ssh's message. Or a machine has another host key than
            the known one, which no wait changes.
    """
    addresses = host_addresses(context)
    outputs = context.cloud_outputs
    if outputs:
        servers = {i.address: i.id for i in outputs.instances.values()}
        forget_changed_keys(context.paths, servers)
        if context.provider.host_keys_on_console:
            remember_console_keys(context, servers, progress)
    end = time.monotonic() + SSH_SECONDS
    said: dict[str, str] = {}
    while addresses:
        progress.update(f"waiting for SSH on {', '.join(addresses)}")
        calls = {name: _ssh(context, address) for name, address in addresses.items()}
        for name, call in calls.items():
            said[name] = call.communicate()[1].strip()
        _refuse_changed_keys(context, {n: a for n, a in addresses.items() if CHANGED_KEY in said[n]})
        for name, call in calls.items():
            if call.returncode == 0:
                del addresses[name]
        if addresses and time.monotonic() > end:
            bastion = context.site.hosts.bastion  # without it, none of the others responds either
            name = bastion if bastion in addresses else next(iter(addresses))
            silent = ", ".join(f"{n} ({a})" for n, a in addresses.items())
            through = f" behind the bastion {bastion}" if bastion and name != bastion else ""
            fix = _remedy(context, name)
            raise UserError(f"no SSH on {silent}{through} after {SSH_SECONDS:.0f} s: {said[name]}", fix=fix)
        if addresses:
            time.sleep(0.5)


def _refuse_changed_keys(context: SiteContext, addresses: Mapping[str, str]) -> None:
    """Refuses a host with another key than the known one; the bastion first, through which ssh reaches the others.

    Args:
        context: the site.
        addresses: of the hosts for which ssh found another key on its way.

    Raises:
        UserError: there is one.
    """
    if not addresses:
        return
    bastion = context.site.hosts.bastion
    known = host_addresses(context)
    name = next(iter(addresses))
    if bastion in known and (bastion in addresses or host_key_changed(context, known[bastion])):
        name = bastion
    if name in {machine.name for machine in context.site.hosts.machines}:
        fix = (
            f"if it was replaced or installed again: strata up {context.site.name} --replace {name}; "
            "else another machine responds at its address"
        )
    else:
        fix = (
            f"compare it with `openstack console log show {name}`; if it is the instance's own: "
            f"ssh-keygen -R {known[name]} -f {context.paths.known_hosts}; else another machine responds at its address"
        )
    raise UserError(
        f"{name} ({known[name]}) has another SSH host key than the one in {context.paths.known_hosts}", fix=fix
    )


def _remedy(context: SiteContext, name: str) -> str:
    """What to do about a host that does not respond on SSH."""
    hosts_section = context.site.hosts
    if name not in {machine.name for machine in hosts_section.machines}:
        return f"add this machine's address to access.ssh; see `openstack console log show {name}`"
    return (
        f"add {context.paths.ssh_key}.pub to {hosts_section.ssh_user}'s authorized_keys there, and this machine's "
        f"address to access.ssh; if {name} is lost, replace it or remove it from hosts.machines"
    )
