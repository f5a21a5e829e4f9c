"""What `strata adopt` would import, worked out on a copy of the state, and the import."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from strata.access.openstack import connect
from strata.adopt.matching import Match, match
from strata.adopt.project import KINDS, Objects, of_kind, project_of, read_project
from strata.adopt.unread import fill_in
from strata.cloud.clouds_file import entries
from strata.engine.changes.disruption import REPLACED, Applied, Approval, Disruption, disruptions
from strata.engine.existing_cloud.checks import answering, check_existing_cloud, check_volume_sizes
from strata.engine.keys import ensure_ssh_key
from strata.engine.up_steps import PULUMI_TOOLS
from strata.errors import UserError
from strata.layers import Layer, Step, StepResult
from strata.models.cloud import Cloud
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site.outputs import ExistingObjects
from strata.stacks.events import urn_name, urn_type
from strata.stacks.rehearsal import Rehearsal, rehearsal
from strata.toolchain import ensure


@dataclass(frozen=True)
class Row:
    """One object that would be adopted.

    Args:
        key: KIND/NAME.
        id: in OpenStack.
        differs: properties that site.yaml describes otherwise.
        replaced: whether the next `up` would replace it for that.
    """

    key: str
    id: str
    differs: tuple[str, ...] = ()
    replaced: bool = False


@dataclass(frozen=True)
class Adoption:
    """What was found.

    Args:
        rows: objects that would be adopted.
        missing: KIND/NAME of what `up` would create.
        ambiguous: KIND/NAME to the ids that could be meant; nothing is adopted while there are any.
        disrupted: instances that `up` would replace, rebuild or resize after the adoption.
        notes: what else the operator should know.
    """

    rows: tuple[Row, ...] = ()
    missing: tuple[str, ...] = ()
    ambiguous: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    disrupted: tuple[Disruption, ...] = ()
    notes: tuple[str, ...] = ()

    def require_unambiguous(self, site: str) -> None:
        """Refuses names that several objects have.

        Raises:
            UserError: names each with all ids.
        """
        if self.ambiguous:
            texts = [f"{key}: {', '.join(ids)}" for key, ids in self.ambiguous.items()]
            # the provider looks up the network of an instance by its name
            options = [f"--map {key}={ids[0]}" for key, ids in self.ambiguous.items() if not key.startswith("network/")]
            choice = f", or choose one: strata adopt {site} {' '.join(options)}" if options else ""
            raise UserError(
                f"several objects of the project could be meant: {'; '.join(texts)}",
                fix=f"rename or delete those that are not the site's{choice}",
            )

    def require_approval(self, site: str, approval: Approval) -> None:
        """Refuses instances that site.yaml describes so differently that `up` would replace or rebuild them.

        Raises:
            UserError: names each that was not approved, with the properties.
        """
        refused = [
            disruption
            for disruption in self.disrupted
            if disruption.effect != "resized" and disruption.instance not in approval.instances
        ]
        if refused:
            options = " ".join(f"--replace {disruption.instance}" for disruption in refused)
            raise UserError(
                "after the adoption, `up` would lose instances: "
                + "; ".join(disruption.text() for disruption in refused),
                fix=f"describe them in the site file as they are, or approve it: strata adopt {site} {options}",
            )


def check_site(context: SiteContext) -> Cloud:
    """Refuses a site that has nothing to adopt.

    Raises:
        UserError: the site has no existing cloud, or not an existing project in it.
    """
    cloud = context.site.cloud
    if cloud is None or not context.provider.can_adopt:
        raise UserError(
            f"{context.site_file}: adopt imports objects of an existing cloud, and site {context.site.name} has none",
            fix=f"strata up {context.site.name}",
        )
    if not cloud.project.existing:
        raise UserError(
            f"{context.site_file}: cloud.project: {cloud.project.name} is not marked as existing",
            fix="if the project exists, set existing: true and leave out its quota",
        )
    return cloud


@contextmanager
def prepare(
    context: SiteContext, chosen: Mapping[str, str], progress: Progress
) -> Iterator[tuple[Adoption, Rehearsal]]:
    """Works out an adoption on a copy of the state; the site's lock is held.

    Args:
        context: the site.
        chosen: KIND/NAME to the id of its object, by the operator.
        progress: receives status messages.

    Raises:
        UserError: the cloud does not respond, it differs from what the site file lists as existing, or a chosen object
            is missing or belongs to another project.
    """
    cloud = check_site(context)
    ensure(PULUMI_TOOLS, progress)
    ensure_ssh_key(context.paths)
    progress.update("looking up the objects of the project")
    entry = entries(context.site.name, cloud).project
    with answering(context, entry), connect(context, entry) as connection:
        objects = read_project(connection)
        for key, identifier in chosen.items():
            kind = key.partition("/")[0]
            if identifier not in {o.id for o in of_kind(objects, kind)}:
                raise _not_there(key, identifier, project_of(connection, kind, identifier), cloud)
    known = _record_images(context, cloud, objects, chosen)
    tried: Rehearsal | None = None
    try:
        check_volume_sizes(context)
        check_existing_cloud(context, progress, adopting={o.name for o in objects["instance"]})
        with rehearsal(context, progress, f"strata adopt {context.site.name}") as tried:
            matches = match(context.site, [c for c in tried.creations() if c.type in KINDS], objects, chosen)
            yield _rehearse(context, tried, matches, objects), tried
    finally:
        if tried is None or not tried.taken:  # else the state refers to them, whatever fails afterwards
            known.save(context.paths)


def _rehearse(context: SiteContext, tried: Rehearsal, matches: Sequence[Match], objects: Objects) -> Adoption:
    ambiguous = {m.key: tuple(o.id for o in m.objects) for m in matches if len(m.objects) > 1}
    missing = tuple(m.key for m in matches if not m.objects)
    matched = {(m.creation.type, m.creation.name): (m, m.found) for m in matches if m.found is not None}
    if ambiguous or not matched:
        return Adoption(missing=missing, ambiguous=ambiguous, rows=tuple(Row(m.key, o.id) for m, o in matched.values()))
    tried.import_objects({key: item.id for key, (_, item) in matched.items()})
    adopted = {item.id for _, item in matched.values()}
    types = _boot_volume_types(context, matches, objects)
    tried.edit(lambda resources: fill_in(resources, objects["port"], objects["server-group"], types, adopted))
    steps = tried.difference()
    changes: dict[tuple[str, str], tuple[set[str], bool]] = {}
    for step in steps:
        properties, replaced = changes.get((urn_type(step["urn"]), urn_name(step["urn"])), (set(), False))
        properties |= {str(name) for name in step.get("diffs") or ()}
        changes[urn_type(step["urn"]), urn_name(step["urn"])] = properties, replaced or step["op"] in REPLACED
    rows = []
    for key, (one_match, item) in matched.items():
        properties, replaced = changes.get(key, (set(), False))
        rows.append(Row(one_match.key, item.id, tuple(sorted(properties)), replaced))
    return Adoption(tuple(rows), missing, {}, tuple(disruptions(context, steps)), tuple(_notes(context, matches)))


def _boot_volume_types(context: SiteContext, matches: Iterable[Match], objects: Objects) -> dict[str, str]:
    """Id of each instance to the type that its boot volume has, where the site file names one."""
    cloud = context.site.cloud
    named = {i.name for i in (cloud.instances if cloud else ()) if i.boot_volume and i.boot_volume.volume_type}
    servers = {m.found.id for m in matches if m.kind == "instance" and m.creation.name in named and m.found}
    return {
        attachment["server_id"]: str(volume["volume_type"])
        for volume in objects["volume"]
        for attachment in volume["attachments"] or ()
        if attachment["server_id"] in servers and volume["is_bootable"]
    }


def _notes(context: SiteContext, matches: Iterable[Match]) -> Iterator[str]:
    """The site's key is not that of the instances where the state directory was lost."""
    pairs = {m.creation.inputs.get("name") for m in matches if m.kind == "key-pair"}
    for m in matches:
        if m.kind == "instance" and m.found is not None and pairs and (m.found["key_name"] or "") not in pairs:
            key = m.found["key_name"] or "none"
            yield (
                f"{m.creation.name} was created with the key pair {key}, not with the site's: SSH needs its "
                f"private key in {context.paths.ssh_key} and the public one beside it"
            )


def _not_there(key: str, identifier: str, owner: str | None, cloud: Cloud) -> UserError:
    kind = key.partition("/")[0]
    if kind not in KINDS.values():
        return UserError(f"--map {key}: there is no kind {kind}", fix=f"one of {', '.join(KINDS.values())}")
    if owner is None:
        why, fix = f"the cloud has no {kind} with the id {identifier}", "correct it (openstack … list shows the ids)"
    else:
        why = f"{identifier} belongs to the project {owner}, not to {cloud.project.name}"
        fix = f"an object of {cloud.project.name}; for another project's network, set existing: true on it"
    return UserError(f"--map {key}: {why}", fix=fix)


def _record_images(context: SiteContext, cloud: Cloud, objects: Objects, chosen: Mapping[str, str]) -> ExistingObjects:
    """Records the images that the instances run, so that a later upload of the same name replaces none of them.

    Returns:
        The record as it was, to be restored if nothing is adopted.
    """
    before = ExistingObjects.load(context.paths) or ExistingObjects()
    images = dict(before.images)
    for image in cloud.images:
        names = {i.name for i in cloud.instances if i.image == image.name}
        ids = {chosen.get(f"instance/{name}") for name in names} - {None}
        servers = [o for o in objects["instance"] if o.name in names or o.id in ids]
        used = {str((o["image"] or {}).get("id") or "") for o in servers}  # none of one that boots from a volume
        if image.id is None and image.name not in images and len(used) == 1 and "" not in used:
            images[image.name] = used.pop()
    before.model_copy(update={"images": images}).save(context.paths)
    return before


def take_step(context: SiteContext, adoption: Adoption, tried: Rehearsal) -> Step:
    """Returns the step that makes the rehearsed state the site's."""

    def run(progress: Progress) -> StepResult:
        # without it, the first `up` would not ask before it replaces an instance
        (Applied.load(context.paths) or Applied()).save(context.paths)
        progress.update("writing the state")
        tried.take()
        return StepResult(len(adoption.rows), f"{len(adoption.rows)} objects in the state; the cloud is unchanged")

    return Step("adopt", Layer.CLOUD, run)


def as_json(site: str, adoption: Adoption, *, adopted: bool) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "site": site,
        "adopted": adopted,
        "objects": [row.__dict__ for row in adoption.rows],
        "missing": adoption.missing,
        "ambiguous": adoption.ambiguous,
        "notes": adoption.notes,
    }
