"""How long instances take from the request to the first answer on SSH."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from strata.access.openstack import connect
from strata.access.ssh import Unreachable, run_ssh
from strata.errors import UserError
from strata.site.context import SiteContext
from strata_bench.breakdown import boot_spans
from strata_bench.model import Bench, Measure
from strata_bench.site import bench_site

if TYPE_CHECKING:
    from openstack.connection import Connection

COUNTS = (1, 10, 50)
LIMIT_SECONDS = 600.0


def instances(bench: Bench) -> Iterator[Measure]:
    """1, 10 and 50 instances asked for at once, until each answers `ssh true`; they are deleted afterwards.

    Raises:
        UserError: one did not respond, or was not deleted, within ten minutes, or nova refused it.
    """
    from openstack.exceptions import SDKException  # noqa: PLC0415  # loads openstack: 0.2 s

    with bench_site(bench, up="cloud") as context:
        try:
            yield from _measure(context, _connect(context), bench)
        except SDKException as error:
            raise UserError(f"benchmark: OpenStack: {error}", fix="`strata status` of the site") from error


def _measure(context: SiteContext, connection: Connection, bench: Bench) -> Iterator[Measure]:
    for count in COUNTS:
        last, first, deleted = [], [], []
        for run in range(bench.runs):
            bench.progress.update(f"instances: {count}, run {run + 1} of {bench.runs}")
            times, gone = _one_run(context, connection, count, bench, boot=run == bench.runs - 1 and count == 1)
            last.append(round(max(times), 2))
            first.append(round(min(times), 2))
            deleted.append(round(gone, 2))
        noun = "instance" if count == 1 else "instances"
        yield Measure(benchmark="instances", what=f"{count} {noun} to SSH", unit="s", samples=tuple(last))
        if count > 1:
            yield Measure(benchmark="instances", what=f"first of {count} to SSH", unit="s", samples=tuple(first))
        yield Measure(benchmark="instances", what=f"{count} {noun} deleted", unit="s", samples=tuple(deleted))


def _connect(context: SiteContext) -> Connection:
    """As the project, whose images, networks and key are used."""
    if context.site.cloud is None:
        raise UserError(
            f"site {context.site.name} has no cloud",
            fix="measure a site with a cloud",
            see="a-benchmark-cannot-be-run",
        )
    return connect(context, f"{context.provider.cloud_entry}-{context.site.cloud.project.name}")


def _one_run(
    context: SiteContext, connection: Connection, count: int, bench: Bench, *, boot: bool
) -> tuple[list[float], float]:
    cloud = context.site.cloud
    assert cloud is not None
    flavor = next(f for f in cloud.flavors if not f.accelerators)
    tag = secrets.token_hex(3)
    common = {
        "flavor_id": connection.compute.find_flavor(flavor.name, ignore_missing=False).id,
        "image_id": connection.image.find_image(cloud.images[0].name, ignore_missing=False).id,
        "networks": [{"uuid": connection.network.find_network(cloud.networks[0].name, ignore_missing=False).id}],
        "key_name": _key_pair(context, connection),
        "security_groups": [{"name": f"{context.site.name}-nodes"}],
    }
    begin = time.monotonic()
    servers: list[Any] = []
    try:
        for number in range(count):
            servers.append(connection.compute.create_server(name=f"bench-{tag}-{number}", **common))
        times = _wait(context, connection, {s.id for s in servers}, begin)
        if boot:
            address = _address(connection.compute.get_server(servers[0].id))
            bench.spans += boot_spans(context, str(address))
    finally:
        gone = time.monotonic()
        for server in servers:
            connection.compute.delete_server(server.id)
        _wait_until_unknown(connection, [s.id for s in servers])
        gone = time.monotonic() - gone
    return times, gone


def _wait_until_unknown(connection: Connection, servers: list[str]) -> None:
    """Waits until nova knows none of the servers: it reports DELETED while the quota still counts them."""
    from openstack.exceptions import NotFoundException  # noqa: PLC0415  # loads openstack: 0.2 s

    end = time.monotonic() + LIMIT_SECONDS
    for server in servers:
        while True:
            try:
                connection.compute.get_server(server)
            except NotFoundException:
                break
            if time.monotonic() > end:
                raise UserError(
                    f"benchmark: an instance is not deleted after {LIMIT_SECONDS:.0f} s",
                    fix="`strata status` of the site",
                )
            time.sleep(0.5)


def _key_pair(context: SiteContext, connection: Connection) -> str:
    """Name of the key pair that holds the site's key; it changes with the key."""
    kind, key, *_ = context.paths.ssh_key.with_suffix(".pub").read_text().split()
    for summary in connection.compute.keypairs():
        key_pair = connection.compute.get_keypair(summary.name)
        if (key_pair.public_key or "").split()[:2] == [kind, key]:
            return str(key_pair.name)
    raise UserError("benchmark: the site's key pair is not in the cloud", fix="`strata up` of the site, then again")


def _address(server: object) -> str | None:
    networks = getattr(server, "addresses", None) or {}
    return next((str(a["addr"]) for addresses in networks.values() for a in addresses), None)


def _wait(context: SiteContext, connection: Connection, waiting: set[str], begin: float) -> list[float]:
    times: list[float] = []
    addresses: dict[str, str] = {}
    while waiting:
        if waiting - set(addresses):
            for server in connection.compute.servers():
                if server.id in waiting and server.status == "ERROR":
                    fault = (server.fault or {}).get("message", "no reason given")
                    raise UserError(f"benchmark: nova refused an instance: {fault}", fix="`strata status` of the site")
                if server.id in waiting and (address := _address(server)):
                    addresses[server.id] = address
        for identifier in [i for i in waiting if i in addresses]:
            if _answers(context, addresses[identifier]):
                times.append(time.monotonic() - begin)
                waiting.discard(identifier)
        if time.monotonic() - begin > LIMIT_SECONDS:
            raise UserError(
                f"benchmark: {len(waiting)} instances do not respond after {LIMIT_SECONDS:.0f} s",
                fix="`openstack console log show` of one of them",
            )
        time.sleep(0.1)
    return times


def _answers(context: SiteContext, address: str) -> bool:
    try:
        with socket.create_connection((address, 22), timeout=0.3) as connection:
            if not connection.recv(4):  # the banner: sshd is there, and not only its socket
                return False
    except OSError:
        return False
    # ssh takes the first of two values: addresses come back with other keys
    anyone = ["-o", "UserKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=no"]
    try:
        return run_ssh(context, address, "true", options=anyone).returncode == 0
    except Unreachable:
        return False
