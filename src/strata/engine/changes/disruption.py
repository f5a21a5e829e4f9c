"""What `up` would disrupt, and whether that was allowed; nothing here changes the site."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from strata.drift.cloud import instances_to_disrupt
from strata.engine.data_volumes import require_volumes_kept
from strata.engine.machine_nodes import leaving_machines
from strata.engine.virtual_address_members import leaving_members
from strata.errors import UserError
from strata.layers import Layer
from strata.lifecycle import CloudLifecycle
from strata.progress import Progress
from strata.roles import KUBERNETES_ROLES
from strata.site.context import SiteContext
from strata.site.data_protection import DATA_ROLES, LAYERS, ProtectedResources, current, losses
from strata.site.outputs import Outputs
from strata.site.paths import REPOSITORY
from strata.stacks import pulumi
from strata.stacks.events import urn_name, urn_type
from strata.stacks.recovery import INSTANCE

_CODE = ("pulumi/cloud", "src/strata/cloud", "versions.yaml")
REPLACED = ("replace", "create-replacement", "delete-replaced")
"""Operations of Pulumi's that are part of a replacement."""
UNKNOWN = ("a resource that it needs is replaced",)
"""Why an instance is replaced that itself does not differ."""
Effect = Literal["replaced", "rebuilt", "resized", "upgraded", "drained"]
_MEANING: Mapping[Effect, str] = {
    "replaced": "deleted and re-created; the data on its disk is lost",
    "rebuilt": "given a new root disk; what is on the old one is lost",
    "resized": "stopped and started with the new size; its disk stays",
    "upgraded": "drained, one node at a time: its pods are evicted, notebooks among them",
    "drained": "its instances are migrated to other hypervisors, live or shut off as they are; then it is rebooted",
}


@dataclass(frozen=True)
class Disruption:
    """What a run would do to an instance or a machine that stays in the site.

    Args:
        instance: its name; of a hypervisor, the host's.
        effect: what nova or, of a node, the cluster's installer would do to it; a hypervisor is drained.
        because: what differs.
        holds: its roles that hold data.
    """

    instance: str
    effect: Effect
    because: tuple[str, ...]
    holds: tuple[str, ...] = ()

    def text(self) -> str:
        """For people."""
        data = f"; it holds the data of {', '.join(self.holds)}" if self.holds else ""
        return f"{self.instance} is {self.effect} ({', '.join(self.because)}): {_MEANING[self.effect]}{data}"


class ApprovalNeeded(UserError):
    """A change would disrupt instances and was not approved.

    Args:
        disruptions: those that were not allowed.
        site: for the fix.
    """

    exit_status = 4
    see = "an-instance-would-be-disrupted"

    def __init__(self, disruptions: Iterable[Disruption], site: str) -> None:
        self.disruptions = tuple(disruptions)
        drained = all(disruption.effect in ("upgraded", "drained") for disruption in self.disruptions)
        options = (
            "--yes" if drained else " ".join(f"--replace {disruption.instance}" for disruption in self.disruptions)
        )
        super().__init__(
            "; ".join(disruption.text() for disruption in self.disruptions),
            fix=f"take the change back, or allow it: strata up {site} {options}",
        )

    @property
    def askable(self) -> bool:
        """Whether a question will do; an instance that would lose data must be named."""
        return not any(disruption.holds and disruption.effect != "resized" for disruption in self.disruptions)


@dataclass(frozen=True)
class Approval:
    """What the operator allowed.

    Args:
        instances: named by `--replace`.
        everything: `--yes`; does not cover instances that hold data: even a resize stops their servers.
    """

    instances: frozenset[str] = frozenset()
    everything: bool = False

    def covers(self, disruption: Disruption) -> bool:
        """Whether it was allowed."""
        return disruption.instance in self.instances or (self.everything and not disruption.holds)

    def with_instances(self, names: Iterable[str]) -> Approval:
        """This, and these instances too."""
        return replace(self, instances=self.instances | set(names))


class Applied(Outputs):
    """The site file as each layer's last success saw it."""

    file_name: ClassVar[str] = "applied.json"
    sections: dict[str, Any] = Field(default_factory=dict)
    """Section of the site file to its content."""
    cloud: str = ""
    """Digest of what led to the cloud's resources."""


SECTIONS: Mapping[Layer, str] = {
    Layer.CLOUD: "cloud",
    Layer.HOSTS: "hosts",
    Layer.CLUSTER: "cluster",
    Layer.PLATFORM: "platform",
}


def remember(context: SiteContext, layers: Iterable[Layer]) -> None:
    """After these layers have succeeded."""
    whole = context.site.model_dump(mode="json")
    known = Applied.load(context.paths) or Applied()
    sections = known.sections | {SECTIONS[layer]: whole[SECTIONS[layer]] for layer in layers}
    known.model_copy(update={"sections": sections}).save(context.paths)


def remember_cloud(context: SiteContext) -> None:
    """After the cloud's program has succeeded."""
    known = Applied.load(context.paths) or Applied()
    known.model_copy(update={"cloud": cloud_digest(context)}).save(context.paths)


def cloud_digest(context: SiteContext) -> str:
    """Of what leads to the cloud's resources: without a difference a run only repairs."""
    from strata.cloud.arguments import image_arguments  # noqa: PLC0415  # loads pulumi: 0.1 s

    site = context.site
    parts = [site.name, site.domain, site.cloud.model_dump_json() if site.cloud else ""]
    if site.cluster is not None:
        parts.append(str(site.cluster.pod_network))
    if site.cloud is not None:
        parts += [repr(image) for image in image_arguments(site.cloud, context.provider)]
    for name in _CODE:
        path = REPOSITORY / name
        files = [path] if path.is_file() else sorted(path.rglob("*.py"))
        parts += [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@dataclass(frozen=True)
class FileChange:
    """One key of the site file that differs from the last success."""

    path: str
    before: str
    now: str


def file_changes(context: SiteContext) -> list[FileChange]:
    """What was edited in the site file since each layer's last success."""
    known = Applied.load(context.paths)
    if known is None:
        return []
    whole = context.site.model_dump(mode="json")
    changes: list[FileChange] = []
    for section, before in known.sections.items():
        changes += _differences(section, before, whole.get(section))
    return changes


def _differences(path: str, before: Any, now: Any) -> Iterator[FileChange]:
    before, now = _by_name(before), _by_name(now)
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*before, *now]):
            yield from _differences(f"{path}.{key}", before.get(key), now.get(key))
    elif before != now:
        yield FileChange(path, _shown(before), _shown(now))


def _by_name(value: Any) -> Any:
    """A list of named things as a mapping, so that a removed one does not shift the rest."""
    if isinstance(value, list) and value and all(isinstance(v, dict) and "name" in v for v in value):
        return {v["name"]: v for v in value}
    return value


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(value)}}}"
    text = "none" if value is None else str(value)
    return text if len(text) <= 60 else text[:59] + "…"


def disruptions(context: SiteContext, steps: Iterable[Mapping[str, Any]]) -> list[Disruption]:
    """Instances of the site that the steps of a preview replace, rebuild or resize.

    Args:
        context: the site.
        steps: metadata of the engine's events.
    """
    roles = {i.name: i.roles for i in context.site.cloud.instances} if context.site.cloud else {}
    by_name: dict[str, Disruption] = {}
    for step in steps:
        name = urn_name(step["urn"])
        if urn_type(step["urn"]) != INSTANCE or name not in roles:
            continue
        because = tuple(
            sorted({str(path).split("[")[0] for path in step.get("diffs") or step.get("detailedDiff") or ()})
        )
        effect = _effect(step["op"], because)
        # of a replacement's steps, the deletion may come first, and does not give the reason
        known = by_name.get(name)
        if effect is not None and (
            known is None or known.effect != "replaced" or (because and known.because == UNKNOWN)
        ):
            holds = tuple(role for role in DATA_ROLES if role in roles[name])
            by_name[name] = Disruption(name, effect, because or UNKNOWN, holds)
    return list(by_name.values())


def _effect(operation: str, because: tuple[str, ...]) -> Effect | None:
    if operation in REPLACED:
        return "replaced"
    if operation == "update" and {"imageId", "imageName"} & set(because):
        return "rebuilt"
    if operation == "update" and {"flavorId", "flavorName"} & set(because):
        return "resized"
    return None


def leaving_instances(context: SiteContext) -> list[str]:
    """Names of instances that exist and are no longer in the site file."""
    outputs = context.cloud_outputs
    declared = {i.name for i in context.site.cloud.instances} if context.site.cloud else set()
    return [name for name in (outputs.instances if outputs else {}) if name not in declared]


def leaving_nodes(context: SiteContext) -> list[str]:
    """Names of Kubernetes nodes that exist and are no longer nodes in the site file."""
    outputs = context.cloud_outputs
    declared = {i.name: i.roles for i in context.site.cloud.instances} if context.site.cloud else {}
    return [
        name
        for name, instance in (outputs.instances if outputs else {}).items()
        if set(KUBERNETES_ROLES) & set(instance.roles) and not set(KUBERNETES_ROLES) & set(declared.get(name, ()))
    ]


def warnings(context: SiteContext, lifecycle: CloudLifecycle, layers: Iterable[Layer]) -> list[str]:
    """For `strata plan`: data that would be lost, nodes that would leave; from the site's state alone.

    Args:
        context: the site.
        lifecycle: of its cloud.
        layers: those to look at.
    """
    work = {layer.value for layer in layers}
    messages = [
        f"{item.key} is no longer in the site file: {item.loss()}; `up` refuses that without --remove {item.key}"
        for item in losses(current(context.site, context.paths), context.site)
        if LAYERS[item.kind] in work
    ]
    if "cloud" in work:
        messages += [f"node {name}: drained, then taken out of the cluster" for name in leaving_nodes(context)]
        messages += [f"instance {name}: deleted" for name in leaving_instances(context)]
        messages += lifecycle.planned_changes()
    if "hosts" in work:
        messages += [
            f"node {name} ({address}): drained, then taken out of the cluster; the machine itself keeps running"
            for name, address in leaving_machines(context).items()
        ]
        messages += [
            f"load balancer {name} ({address}): keepalived is stopped; the machine itself keeps running"
            for address, name in leaving_members(context).items()
        ]
    return messages


def require_approval(context: SiteContext, approval: Approval, progress: Progress) -> list[Disruption]:
    """Before the cloud's program runs: what it would disrupt.

    A preview costs seconds, so it is asked for only where the program or what it is given has changed, or an instance
    was resized or rebuilt outside Strata.

    Raises:
        ApprovalNeeded: names each instance whose disruption was not approved.
        UserError: the preview failed, or a volume would be deleted.
    """
    known = Applied.load(context.paths)
    unchanged = known.cloud == cloud_digest(context) if known is not None else context.cloud_outputs is None
    if unchanged and not instances_to_disrupt(context):
        return []
    progress.update("checking what would be replaced")
    result = pulumi.preview("cloud", context.site, context.paths, progress, site_file=context.site_file)
    require_volumes_kept(context, result.planned, ProtectedResources.of(context.paths).leaving("volume"))
    planned = disruptions(context, result.planned)
    refused = [disruption for disruption in planned if not approval.covers(disruption)]
    if refused:
        raise ApprovalNeeded(refused, context.site.name)
    return planned
