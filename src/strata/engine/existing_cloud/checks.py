"""An existing cloud against what a site expects of it, before anything in it is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from strata.access.openstack import connect
from strata.cloud.arguments import virtual_address_arguments
from strata.cloud.clouds_file import entries
from strata.cloud.role_ports import security_group_arguments
from strata.engine.data_volumes import check_sizes, check_storage, deployed_volumes, volume_needs
from strata.engine.existing_cloud.flavors import check_flavor
from strata.engine.existing_cloud.networks import check_network, paired_networks
from strata.engine.existing_cloud.objects import (
    CloudObjects,
    FoundImage,
    TakenName,
    external_networks,
    find_objects,
)
from strata.errors import UserError
from strata.models.accelerator_catalogue import Accelerator
from strata.models.cloud import Cloud
from strata.models.compute import Image
from strata.models.finding import Finding
from strata.models.key_path import KeyPath
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site.outputs import ExistingObjects
from strata.site_file.document import read_document
from strata.site_file.problems import Problem, SiteError, suggestion
from strata.stacks.events import urn_name, urn_type
from strata.stacks.pulumi_state import project_name, read_deployment, state_file

ADMINISTRATOR = "admin"
"""The role that pulumi/cloud gives itself in a project that it creates."""
QUOTA_NAMES = {
    "instances": "instances",
    "cores": "cores",
    "memory": "MiB of memory",
    "server_group": "server groups",
    "network": "networks",
    "subnet": "subnets",
    "port": "ports",
    "router": "routers",
    "floatingip": "floating IPs",
    "volumes": "volumes",
    "gigabytes": "GiB of volumes",
    "security_group": "security groups",
    "security_group_rule": "security group rules",
}
SHOWN_NAMES = 6
"""Objects that a message lists before it only counts."""
OWN_RULES = 2
"""Rules that neutron gives each new security group: everything may go out."""


def check_volume_sizes(context: SiteContext) -> None:
    """Refuses volumes that the site file makes smaller, whoever runs the cloud.

    Raises:
        SiteError: with file, line, key and fix of each.
    """
    if context.site.cloud is not None:
        _refuse(context, check_sizes(context.site.cloud, deployed_volumes(context)))


def check_existing_cloud(context: SiteContext, progress: Progress, *, adopting: Collection[str] | None = None) -> None:
    """Looks up what the site refers to, checks it, and records which images it uses.

    In the cloud nothing is changed.

    Args:
        context: the site.
        progress: receives status messages.
        adopting: names of instances that `strata adopt` found, which need neither quota nor a free name; None for `up`.

    Raises:
        SiteError: something is missing, ambiguous or different from what the site file lists, the quota is too small,
            or the credentials are refused; all of it, with file, line, key and fix.
        UserError: the project has objects with names that `up` would give to others.
    """
    cloud = context.site.cloud
    if cloud is None:
        return
    volumes = deployed_volumes(context)
    progress.update("looking up the objects of the existing cloud")
    known = ExistingObjects.load(context.paths) or ExistingObjects()
    names = unmade_names(context, cloud) if adopting is None and cloud.project.existing else {}
    objects = _read(context, cloud, known.images.values(), names)
    made = deployed(context)
    present = {name for kind, name in made if kind == "Instance"} | set(adopting or ())
    images, findings = choose_images(cloud, objects, known.images, present)
    findings += check_objects(cloud, context.site.accelerators, objects)
    findings += check_disks(cloud, objects, images, present)
    findings += check_storage(cloud, objects.storage, volumes)
    if adopting is None and not objects.taken:
        new = {name for kind, name in made if kind == "Instance"}
        needed = needs(context, cloud, made) | volume_needs(cloud, volumes, new)
        findings += check_quota(needed, objects)
    _refuse(context, findings)
    if objects.taken:
        raise names_taken(context.site.name, cloud, objects.taken)
    known.model_copy(update={"images": images}).save(context.paths)


def _refuse(context: SiteContext, findings: Iterable[Finding]) -> None:
    listed = list(findings)
    if listed:
        document = read_document(context.site_file)
        raise SiteError([document.problem(f.path, f.why, f.fix) for f in listed])


def _read(
    context: SiteContext, cloud: Cloud, known_images: Iterable[str], names: Mapping[str, Collection[str]]
) -> CloudObjects:
    known = entries(context.site.name, cloud)
    entry = known.project if cloud.project.existing else known.administrator
    with answering(context, entry), connect(context, entry) as connection:
        return find_objects(connection, cloud, known_images, names, paired_networks(context.site, cloud))


@contextmanager
def answering(context: SiteContext, entry: str) -> Iterator[None]:
    """Turns the errors of a cloud that does not respond, or not to these credentials, into the site file's.

    Args:
        context: the site.
        entry: of clouds.yaml.

    Raises:
        SiteError: at cloud.credentials.
    """
    from keystoneauth1.exceptions import ClientException, Unauthorized  # noqa: PLC0415  # loads openstack: 0.2 s
    from openstack.exceptions import SDKException  # noqa: PLC0415  # loads openstack: 0.2 s

    try:
        yield
    except Unauthorized as error:
        raise _credentials(
            context,
            f"keystone refuses the entry {entry} of clouds.yaml: {_first_line(error)}",
            f"correct its auth section; an application credential may have expired (openstack --os-cloud {entry} "
            "token issue)",
        ) from None
    except (SDKException, ClientException, OSError) as error:
        raise _credentials(
            context,
            f"the cloud of the entry {entry} of clouds.yaml does not respond: {_first_line(error)}",
            f"check auth_url and the network (openstack --os-cloud {entry} catalog list)",
        ) from None


def unmade_names(context: SiteContext, cloud: Cloud) -> dict[str, Collection[str]]:
    """Kind to names of objects that neither the state nor an interrupted run has."""
    file = state_file(context.paths.pulumi, project_name("cloud"), context.site.name)
    deployment = read_deployment(file) if file.exists() else {}
    resources = [r for r in deployment.get("resources") or () if r.get("id")]
    resources += [operation["resource"] for operation in deployment.get("pending_operations") or ()]
    made = {(urn_type(r["urn"]).rpartition(":")[2], urn_name(r["urn"])) for r in resources}
    routed = cloud.external_network is not None and not all(network.existing for network in cloud.networks)
    return {
        "network": {n.name for n in cloud.networks if not n.existing and ("Network", n.name) not in made},
        "router": {context.site.name} if routed and ("Router", "router") not in made else set(),
        "security group": {
            group.name
            for role, group in security_group_arguments(context.site, cloud).items()
            if ("SecGroup", role) not in made
        },
        "instance": {i.name for i in cloud.instances if ("Instance", i.name) not in made},
        "volume": {v.name for i in cloud.instances for v in i.volumes if ("Volume", v.name) not in made},
    }


def names_taken(site: str, cloud: Cloud, taken: Collection[TakenName]) -> UserError:
    """Returns the error about objects with names that `up` would give to others."""
    listed = [f"{item.kind} {item.name} ({item.id})" for item in taken]
    more = f" and {len(listed) - SHOWN_NAMES} more" if len(listed) > SHOWN_NAMES else ""
    return UserError(
        f"the project {cloud.project.name} has objects with names that `up` would give to new ones: "
        f"{', '.join(listed[:SHOWN_NAMES])}{more}",
        fix=f"`strata adopt {site}` imports them into the state; if they are not the site's, rename or delete them",
    )


def _credentials(context: SiteContext, why: str, fix: str) -> SiteError:
    problem: Problem = read_document(context.site_file).problem(("cloud", "credentials"), why, fix)
    return SiteError([problem])


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def check_objects(cloud: Cloud, kinds: Mapping[str, Accelerator], objects: CloudObjects) -> Iterator[Finding]:
    """Project, flavors and networks against the site file.

    Args:
        cloud: of the site.
        kinds: of accelerators, by name.
        objects: what the cloud has.
    """
    if cloud.project.existing and objects.project != cloud.project.name:
        why = f"the credentials are for the project {objects.project}"
        yield Finding(("cloud", "project", "name"), why, f"{objects.project}, or credentials of {cloud.project.name}")
    if cloud.administrator and ADMINISTRATOR not in objects.roles:
        why = f"the credentials have the roles {', '.join(sorted(objects.roles)) or 'none'}, not {ADMINISTRATOR}"
        yield Finding(("cloud", "administrator"), why, "credentials of an administrator, or existing objects only")
    for index, flavor in enumerate(cloud.flavors):
        if flavor.existing:
            yield from check_flavor(flavor, kinds, objects.flavors, ("cloud", "flavors", index))
    for index, network in enumerate(cloud.networks):
        if network.existing:
            path: KeyPath = ("cloud", "networks", index)
            networks = [n for n in objects.networks if n.name == network.name]
            if len(networks) != 1:
                yield _not_one((*path, "name"), "network", [n.id for n in networks], "")
                continue
            yield from check_network(network, networks[0], path)
    for index, instance in enumerate(cloud.instances):
        zone = instance.availability_zone
        if zone is not None and zone not in objects.zones:
            why = "the cloud has no such availability zone"
            fix = suggestion(zone, sorted(objects.zones), "availability zones")
            yield Finding(("cloud", "instances", index, "availability_zone"), why, fix)
    if cloud.external_network is not None:
        networks = external_networks(objects, cloud.external_network)
        if len(networks) != 1:
            listed = "; external networks: " + (", ".join(n.name for n in objects.external) or "none")
            yield _not_one(("cloud", "external_network"), "external network", [n.id for n in networks], listed)


def _not_one(path: KeyPath, noun: str, ids: list[str], listed: str) -> Finding:
    if not ids:
        return Finding(path, f"the cloud has no such {noun}{listed}", "correct it, or have it created")
    fix = f"{' or '.join(ids)}" if noun == "external network" else "have all but one renamed"
    return Finding(path, f"{len(ids)} objects of the kind {noun} have this name: {', '.join(ids)}", fix)


def choose_images(
    cloud: Cloud, objects: CloudObjects, known: Mapping[str, str], deployed_instances: set[str]
) -> tuple[dict[str, str], list[Finding]]:
    """The image of each name: by id, else the one that the site uses already, else the only one of that name.

    Args:
        cloud: of the site.
        objects: what the cloud has.
        known: image name to the id that the site uses.
        deployed_instances: names; they run on without their image, so that only others need it.
    """
    chosen: dict[str, str] = {}
    findings: list[Finding] = []
    for index, image in enumerate(cloud.images):
        path: KeyPath = ("cloud", "images", index)
        needed = any(i.image == image.name and i.name not in deployed_instances for i in cloud.instances)
        choice = _choose(image, objects.images, known.get(image.name), needed, path)
        if isinstance(choice, Finding):
            findings.append(choice)
        else:
            chosen[image.name] = choice
    return chosen, findings


def _choose(
    image: Image, images: tuple[FoundImage, ...], known: str | None, needed: bool, path: KeyPath
) -> str | Finding:
    by_id = {candidate.id: candidate for candidate in images}
    named = [candidate for candidate in images if candidate.name == image.name and not candidate.community]
    listed = ", ".join(f"{candidate.id} (created {candidate.created})" for candidate in named) or "none of that name"
    if image.id is not None or known is not None:
        identifier = str(image.id) if image.id is not None else str(known)
        existing = by_id.get(identifier)
        if existing is not None and (image.checksum is None or image.checksum in existing.checksums):
            return identifier
        if existing is None and not needed and (image.id is None or identifier == known):
            return identifier  # instances run on without it
        if image.id is not None or existing is None:
            key = "id" if image.id is not None else "name"
            return _wrong_image(existing, image, identifier, listed, (*path, key))
    matching = [candidate for candidate in named if image.checksum is None or image.checksum in candidate.checksums]
    if len(matching) == 1:
        return matching[0].id
    if matching:
        return Finding((*path, "name"), f"{len(matching)} images have this name: {listed}", f"id: {matching[-1].id}")
    if named:
        return Finding((*path, "checksum"), f"no image {image.name} has it; the cloud has {listed}", "correct it")
    if published := [candidate for candidate in images if candidate.name == image.name]:
        listed = ", ".join(f"{candidate.id} (created {candidate.created})" for candidate in published)
        why = f"only community images have this name, which any project can publish: {listed}"
        return Finding((*path, "name"), why, f"id: {published[-1].id}, if you trust its owner")
    return Finding((*path, "name"), "the cloud has no such image, or not for this project", "upload it, or correct it")


def _wrong_image(existing: FoundImage | None, image: Image, identifier: str, listed: str, path: KeyPath) -> Finding:
    if existing is not None:
        sums = ", ".join(sorted(existing.checksums))
        return Finding((*path[:-1], "checksum"), f"the image {identifier} has {sums}", "correct checksum or id")
    why = f"the image {identifier} has vanished; the cloud has {listed}"
    return Finding(path, why, f"set the id of another one for {image.name}, which replaces its instances")


def check_disks(
    cloud: Cloud, objects: CloudObjects, chosen: Mapping[str, str], deployed_instances: Collection[str]
) -> Iterator[Finding]:
    """Root disks of new instances that are too small for their images, for which nova refuses to start them.

    Args:
        cloud: of the site.
        objects: what the cloud has.
        chosen: image name to id.
        deployed_instances: names of those that run already.
    """
    least = {image.id: image.disk_gib for image in objects.images}
    flavors = {flavor.name: flavor for flavor in cloud.flavors}
    for index, instance in enumerate(cloud.instances):
        needed = least.get(chosen.get(instance.image, ""), 0)
        boot = instance.boot_volume
        disk = (flavors[instance.flavor].disk if boot is None else boot.size).gibibytes
        if instance.name not in deployed_instances and disk < needed:
            path: KeyPath = ("cloud", "instances", index)
            what, key = ("flavor has a disk", "flavor") if boot is None else ("boot volume has a size", "boot_volume")
            why = f"the {what} of {disk} GiB, and the image {instance.image} needs {needed} GiB"
            fix = f"a {'flavor with a disk' if boot is None else 'size'} of {needed} GiB or more, or another image"
            yield Finding((*path, key) if boot is None else (*path, key, "size"), why, fix)


def deployed(context: SiteContext) -> Counter[tuple[str, str]]:
    """Short type and name of the cloud stack's resources, from its state."""
    file = state_file(context.paths.pulumi, project_name("cloud"), context.site.name)
    resources = read_deployment(file).get("resources") or () if file.exists() else ()
    return Counter((urn_type(r["urn"]).rpartition(":")[2], urn_name(r["urn"])) for r in resources if r.get("id"))


def needs(context: SiteContext, cloud: Cloud, made: Counter[tuple[str, str]]) -> dict[str, int]:
    """What `up` is about to create, by resource of the quota."""
    have = Counter(kind for kind, _ in made.elements())
    flavors = {flavor.name: flavor for flavor in cloud.flavors}
    new = [flavors[i.flavor] for i in cloud.instances if ("Instance", i.name) not in made]
    own = sum(not network.existing for network in cloud.networks)
    subnets = own + sum(not network.existing and network.ipv6 is not None for network in cloud.networks)
    routed = subnets if cloud.external_network is not None else 0
    shared = virtual_address_arguments(context.site, cloud)
    groups = security_group_arguments(context.site, cloud)
    more_groups = len(groups) - have["SecGroup"]
    amounts = {
        "instances": len(new),
        "cores": sum(flavor.vcpus for flavor in new),
        "memory": sum(flavor.memory.mebibytes for flavor in new),
        "server_group": len(cloud.server_groups) - have["ServerGroup"],
        "network": own - have["Network"],
        "subnet": subnets - have["Subnet"],
        # of instances, the load balancers' own, of routers, and neutron's for DHCP
        "port": len(cloud.instances)
        + int(shared is not None)
        - have["Port"]
        + routed
        - have["RouterInterface"]
        + own
        - have["Network"],
        "router": int(routed > 0) - have["Router"],
        "floatingip": sum(i.floating_ip for i in cloud.instances)
        + int(shared is not None and shared.floating_ip)
        - have["FloatingIp"],
        "security_group": more_groups,
        "security_group_rule": sum(len(g.ingress) for g in groups.values())
        - have["SecGroupRule"]
        + OWN_RULES * more_groups,
    }
    return {name: count for name, count in amounts.items() if count > 0}


def check_quota(needed: Mapping[str, int], objects: CloudObjects) -> Iterator[Finding]:
    """What is needed against what the project has left."""
    for name, count in needed.items():
        allowance = objects.quota.get(name)
        if allowance is not None and not allowance.allows(count):
            what, left = QUOTA_NAMES[name], max(allowance.limit - allowance.used, 0)
            why = f"{count} more {what} are needed, the quota has {left} left of {allowance.limit}"
            fix = f"have the cloud's administrator raise it to {allowance.used + count}, or use less"
            yield Finding(("cloud", "project"), why, fix)
