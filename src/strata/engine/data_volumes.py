"""Volumes with data, before the cloud's program runs: what it must not do to them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from strata.access.openstack import connect, visible_servers
from strata.engine.existing_cloud.objects import FoundStorage
from strata.errors import UserError
from strata.models.cloud import Cloud
from strata.models.finding import Finding
from strata.models.key_path import KeyPath
from strata.models.volumes import BootVolume, Volume
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site_file.problems import suggestion
from strata.stacks.events import urn_name, urn_type
from strata.stacks.pulumi_state import project_name, read_deployment, state_file
from strata.stacks.recovery import VOLUME

STOP_SECONDS = 300
"""How long an instance may take to shut down; nova switches it off after its own time limit."""


def volumes_of(cloud: Cloud) -> Iterator[tuple[KeyPath, Volume]]:
    """Every volume for data, with its key."""
    for index, instance in enumerate(cloud.instances):
        for position, volume in enumerate(instance.volumes):
            yield ("cloud", "instances", index, "volumes", position), volume


def deployed_volumes(context: SiteContext) -> dict[str, Mapping[str, Any]]:
    """Name to resource of the volumes that the state has; none for a site without volumes."""
    cloud = context.site.cloud
    if cloud is None or not any(instance.volumes for instance in cloud.instances):
        return {}
    file = state_file(context.paths.pulumi, project_name("cloud"), context.site.name)
    resources = read_deployment(file).get("resources") or () if file.exists() else ()
    return {urn_name(r["urn"]): r for r in resources if urn_type(r["urn"]) == VOLUME and r.get("id")}


def check_sizes(cloud: Cloud, known: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """Volumes that would have to shrink.

    Args:
        cloud: of the site.
        known: name to resource, as the state has them.
    """
    for path, volume in volumes_of(cloud):
        size = int((known.get(volume.name) or {}).get("outputs", {}).get("size") or 0)
        if volume.size.gibibytes < size:
            why = f"the volume has {size} GiB, and volumes do not shrink"
            yield Finding((*path, "size"), why, f"{size} GiB or more, or a new volume with another name")


def check_storage(
    cloud: Cloud, storage: FoundStorage | None, known: Mapping[str, Mapping[str, Any]]
) -> Iterator[Finding]:
    """Whether the cloud has cinder and the volume types, and volumes still have theirs.

    Args:
        cloud: of the site.
        storage: what cinder has; None where there is no cinder.
        known: name to resource, as the state has them.
    """
    uses: list[tuple[KeyPath, Volume | BootVolume]] = list(volumes_of(cloud))
    uses += [
        (("cloud", "instances", index, "boot_volume"), instance.boot_volume)
        for index, instance in enumerate(cloud.instances)
        if instance.boot_volume is not None
    ]
    for path, volume in uses:
        if storage is None:
            why = "the cloud has no block storage service (cinder), or not for this project"
            yield Finding((*path, "size"), why, "remove the volume")
            continue
        desired = volume.volume_type
        identifier = str((known.get(volume.name) or {}).get("id")) if isinstance(volume, Volume) else ""
        actual = storage.volumes.get(identifier)
        if desired is not None and desired not in storage.types:
            why = "the cloud has no such volume type, or not for this project"
            yield Finding((*path, "volume_type"), why, suggestion(desired, sorted(storage.types), "volume types"))
        elif desired is not None and actual not in (None, desired):
            why = f"the volume has the type {actual}, which `up` does not change"
            retype = f"openstack volume set --type {desired} --retype-policy on-demand {identifier}"
            yield Finding((*path, "volume_type"), why, f"volume_type: {actual}, or `{retype}`")


def volume_needs(
    cloud: Cloud, known: Mapping[str, Mapping[str, Any]], deployed_instances: Collection[str]
) -> dict[str, int]:
    """What `up` is about to create, by resource of cinder's quota.

    Args:
        cloud: of the site.
        known: name to resource of volumes, as the state has them.
        deployed_instances: names of those that have their boot volumes.
    """
    boot = [i.boot_volume for i in cloud.instances if i.boot_volume and i.name not in deployed_instances]
    sizes = {volume.name: volume.size.gibibytes for _, volume in volumes_of(cloud)}
    before = sum(int(known[name]["outputs"].get("size") or 0) for name in sizes if name in known)
    amounts = {
        "volumes": len(boot) + sum(name not in known for name in sizes),
        "gigabytes": sum(volume.size.gibibytes for volume in boot) + sum(sizes.values()) - before,
    }
    return {name: count for name, count in amounts.items() if count > 0}


def require_volumes_kept(context: SiteContext, steps: Iterable[Mapping[str, Any]], leaving: Iterable[str]) -> None:
    """Refuses a run that would delete or replace a volume which was not named.

    Args:
        context: the site.
        steps: of a preview, metadata of the engine's events.
        leaving: names that `--remove` allowed.

    Raises:
        UserError: names each volume.
    """
    deleting = ("delete", "replace", "create-replacement", "delete-replaced")
    lost = {urn_name(s["urn"]) for s in steps if urn_type(s["urn"]) == VOLUME and s["op"] in deleting} - set(leaving)
    if lost:
        raise UserError(
            f"the Pulumi program would delete volumes with data: {', '.join(sorted(lost))}",
            fix=f"take the change back; for a volume that may go, remove it from the site file and run "
            f"strata up {context.site.name} --remove volume/NAME",
            see="a-volume-would-be-deleted",
        )


def stop_instances(context: SiteContext, names: Iterable[str], progress: Progress) -> None:
    """Shuts down instances before their volumes are detached, so that everything is written.

    Args:
        context: the site.
        names: of instances; those without volumes are passed over.
        progress: receives status messages.

    Raises:
        UserError: one does not shut down; names it.
    """
    cloud, outputs = context.site.cloud, context.cloud_outputs
    known = outputs.instances if outputs else {}
    ids = {known[name].id: name for name in names if name in known and known[name].volumes}
    if cloud is None or not ids:
        return
    with connect(context) as connection:
        compute: Any = connection.compute
        for server in list(visible_servers(connection, context)):
            if str(server.id) in ids and server.status == "ACTIVE":
                progress.update(f"shutting down {ids[str(server.id)]}")
                _stop(compute, server, ids[str(server.id)], context.site.name)


def _stop(compute: Any, server: Any, name: str, site: str) -> None:
    from keystoneauth1.exceptions import ClientException  # noqa: PLC0415  # loads openstack: 0.2 s
    from openstack.exceptions import SDKException  # noqa: PLC0415  # loads openstack: 0.2 s

    try:
        compute.stop_server(server)
        # each poll writes what it found into `server`
        compute.wait_for_server(server, status="SHUTOFF", failures=["ERROR"], interval=2, wait=STOP_SECONDS)
    except (SDKException, ClientException) as error:
        task = f" ({server.task_state})" if server.task_state else ""
        raise UserError(
            f"instance {name} does not shut down: nova reports the status {server.status}{task}; {error}",
            fix=f"check its hypervisor (`openstack server show {server.id}`, `openstack compute service list`), "
            f"shut it down (`openstack server stop {server.id}`), and run strata up {site} again",
        ) from None
