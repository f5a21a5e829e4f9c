"""What of a site holds data and must not go without being named.

The ledger in the state directory lists it from the moment on that `up` is asked for it; an entry leaves only when the
site file no longer has it, `up --remove NAME` allows that, and `up` has succeeded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from strata.catalogue.site_needs import databases, namespaces
from strata.catalogue.site_volumes import export_paths
from strata.errors import UserError
from strata.models.declared_hosts import declared_hosts
from strata.models.site import Site
from strata.roles import roles as all_roles
from strata.site.outputs import CloudOutputs, Outputs
from strata.site.paths import SitePaths

Kind = Literal["project", "host", "volume", "database", "export", "namespace", "tenant"]
LAYERS: dict[Kind, str] = {
    "project": "cloud",
    "host": "cloud",
    "volume": "cloud",
    "database": "hosts",
    "export": "hosts",
    "namespace": "platform",
    "tenant": "platform",
}
"""Kind to the layer whose `up` would remove it."""
CONTROL_PLANE = "kube_control_plane"
DATA_ROLES = tuple(name for name, role in all_roles().items() if role.data)
"""Roles whose hosts cannot be made again from the site file alone."""


class Kept(BaseModel):
    """One thing that holds data.

    Args:
        kind: what it is.
        name: in the site file.
        detail: a host's data roles, an export's directory.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: Kind
    name: str
    detail: str = ""

    @property
    def key(self) -> str:
        """What `--remove` takes."""
        return f"{self.kind}/{self.name}"

    def loss(self) -> str:
        """What goes with it, in words."""
        return {
            "project": "every instance, network and volume in it is re-created",
            "host": f"all data of its roles ({self.detail})",
            "volume": "the volume is deleted with all its files",
            "database": "the database is dropped with all its tables",
            "export": f"clients lose {self.detail}; its files stay on the server",
            "namespace": "it goes with all its pods, volumes and secrets",
            "tenant": "the namespace goes with all its pods, volumes and secrets",
        }[self.kind]


class ProtectedResources(Outputs):
    """What holds data now, and what was allowed to go."""

    file_name: ClassVar[str] = "protected.json"
    kept: tuple[Kept, ...] = ()
    removing: tuple[Kept, ...] = ()

    @classmethod
    def of(cls, paths: SitePaths) -> ProtectedResources:
        """The site's ledger; empty for one that was never up."""
        return cls.load(paths) or cls()

    def leaving(self, kind: Kind) -> tuple[str, ...]:
        """Names of a kind that were allowed to go."""
        return tuple(resource.name for resource in self.removing if resource.kind == kind)

    def settled(self, layers: Iterable[str]) -> ProtectedResources:
        """After these layers have succeeded: what was allowed to go is gone."""
        done = set(layers)
        gone = {resource for resource in self.removing if LAYERS[resource.kind] in done}
        return ProtectedResources(
            kept=tuple(resource for resource in self.kept if resource not in gone),
            removing=tuple(resource for resource in self.removing if resource not in gone),
        )

    def without_cluster(self) -> ProtectedResources:
        """After the cluster was reset: its namespaces are gone, and its control planes have nothing to lose."""
        kept = []
        for entry in self.kept:
            roles = [role for role in entry.detail.split(", ") if role != CONTROL_PLANE]
            if entry.kind == "host" and roles:
                kept.append(entry.model_copy(update={"detail": ", ".join(roles)}))
            elif entry.kind != "host" and LAYERS[entry.kind] != "platform":
                kept.append(entry)
        return ProtectedResources(kept=tuple(kept), removing=self.removing)


def data_of(site: Site) -> tuple[Kept, ...]:
    """Everything in a site file that will hold data."""
    resources: list[Kept] = []
    if site.cloud is not None:
        resources.append(Kept(kind="project", name=site.cloud.project.name))
        resources += _hosts((i.name, i.roles) for i in site.cloud.instances)
        resources += [Kept(kind="volume", name=v.name) for i in site.cloud.instances for v in i.volumes]
    resources += _hosts((m.name, m.roles) for m in site.hosts.machines)
    resources += [Kept(kind="export", name=name, detail=str(path)) for name, path in export_paths(site).items()]
    if site.cluster is not None:
        resources += [Kept(kind="tenant", name=t.name) for t in site.platform.tenants]
        resources += [Kept(kind="namespace", name=namespace.name) for namespace in namespaces(site)]
    return (*resources, *(Kept(kind="database", name=name) for name in databases(site)))


def _hosts(hosts: Iterable[tuple[str, tuple[str, ...]]]) -> list[Kept]:
    resources = []
    for name, roles in hosts:
        holds = [role for role in DATA_ROLES if role in roles]
        if holds:
            resources.append(Kept(kind="host", name=name, detail=", ".join(holds)))
    return resources


def current(site: Site, paths: SitePaths) -> ProtectedResources:
    """The ledger; for a site that was up before there was one, what its cloud has."""
    ledger = ProtectedResources.load(paths)
    if ledger is not None:
        return ledger
    outputs = CloudOutputs.load(paths)
    if outputs is None:
        return ProtectedResources()
    hosts = _hosts((i.name, i.roles) for i in outputs.instances.values())
    return ProtectedResources(kept=(*hosts, *(resource for resource in data_of(site) if resource.kind != "host")))


def losses(ledger: ProtectedResources, site: Site) -> list[Kept]:
    """What the ledger has and the site file no longer; a host that gives up a data role counts, one more role not."""
    desired = {resource.key: resource for resource in data_of(site)}
    return [resource for resource in ledger.kept if not _stays(resource, desired.get(resource.key))]


def _stays(kept: Kept, desired: Kept | None) -> bool:
    if desired is None:
        return False
    if kept.kind == "host":
        return set(kept.detail.split(", ")) <= set(desired.detail.split(", "))
    return kept.detail == desired.detail


def require_named_volumes(site: Site, paths: SitePaths, names: Iterable[str]) -> None:
    """Before the whole site goes: refuses the loss of volumes that were not named.

    Args:
        site: as it is.
        paths: where the ledger is.
        names: of `--remove`: `volume/NAME`, or the name alone.

    Raises:
        ProtectedLoss: naming each volume, and the option that allows it.
        UserError: a name that is not a volume.
    """
    # a site whose outputs cannot be read is destroyed all the same
    kept = {
        resource.key: resource
        for resource in (*ProtectedResources.of(paths).kept, *data_of(site))
        if resource.kind == "volume"
    }
    named = set(names)
    if unknown := named - {n for resource in kept.values() for n in (resource.key, resource.name)}:
        raise UserError(
            f"--remove {', '.join(sorted(unknown))}: the site has no such volume; it has {', '.join(kept) or 'none'}",
            fix="name it as `strata plan` does",
        )
    refused = [resource.key for resource in kept.values() if not {resource.key, resource.name} & named]
    if refused:
        options = " ".join(f"--remove {key}" for key in refused)
        raise ProtectedLoss(
            f"site {site.name}: {', '.join(refused)} would be deleted with all files",
            fix=f"allow the loss: strata destroy {site.name} {options}",
        )


class ProtectedLoss(UserError):
    """Something that holds data was removed from the site file and not named by --remove."""


def authorize_removal(site: Site, paths: SitePaths, layers: Iterable[str], names: Iterable[str]) -> ProtectedResources:
    """Refuses the loss of what was not named; else notes what the site holds and what may go.

    Args:
        site: as it is to be.
        paths: where the ledger is.
        layers: names of the layers that `up` is going to bring up; losses in others are not its work.
        names: of `--remove`: `kind/name`, or the name alone where it is the only one.

    Returns:
        The new ledger, not yet saved.

    Raises:
        ProtectedLoss: naming each thing, what goes with it, and the option that allows it.
        UserError: a name that is not leaving.
    """
    ledger = current(site, paths)
    work = set(layers)
    going = [resource for resource in losses(ledger, site) if LAYERS[resource.kind] in work]
    named = set(names)
    # a run that failed after it was allowed need not be allowed again
    allowed = [resource for resource in going if {resource.key, resource.name} & named or resource in ledger.removing]
    unknown = named - {n for resource in going for n in (resource.key, resource.name)}
    if unknown:
        there = ", ".join(resource.key for resource in going) or "nothing"
        raise UserError(
            f"--remove {', '.join(sorted(unknown))}: no such thing with data leaves the site; what leaves: {there}",
            fix="take it out of the site file first, and name it as `strata plan` does",
        )
    refused = [resource for resource in going if resource not in allowed]
    _keep_a_control_plane(ledger, going, site)
    if refused:
        lost = "; ".join(f"{resource.key}: {resource.loss()}" for resource in refused)
        options = " ".join(f"--remove {resource.key}" for resource in refused)
        raise ProtectedLoss(
            f"site {site.name}: the site file no longer has {lost}",
            fix=f"put it back, or allow the loss: strata up {site.name} {options}",
        )
    removing = (*ledger.removing, *(resource for resource in allowed if resource not in ledger.removing))
    desired = data_of(site)
    kept = {resource.key: resource for resource in (*ledger.kept, *(w for w in desired if LAYERS[w.kind] in work))}
    kept |= {resource.key: resource for resource in removing}
    # what was taken out, and came back before it went
    back = {resource for resource in removing if _stays(resource, {w.key: w for w in desired}.get(resource.key))}
    return ProtectedResources(
        kept=tuple(kept.values()), removing=tuple(resource for resource in removing if resource not in back)
    )


def _keep_a_control_plane(ledger: ProtectedResources, going: list[Kept], site: Site) -> None:
    """A cluster whose control planes all go is no longer that cluster: its authority's key is on them alone."""
    if site.cluster is None or not going:
        return
    leaving = [
        resource for resource in going if resource.kind == "host" and CONTROL_PLANE in resource.detail.split(", ")
    ]
    stays = {host.name for host in declared_hosts(site) if CONTROL_PLANE in host.roles}
    before = {resource.name for resource in ledger.kept if resource.kind == "host" and CONTROL_PLANE in resource.detail}
    if leaving and not stays & before - {resource.name for resource in leaving}:
        names = ", ".join(resource.name for resource in leaving)
        raise ProtectedLoss(
            f"site {site.name}: {names} is the last control plane of the cluster {site.cluster.name}",
            fix=f"put {names} back; to give up the cluster, `strata destroy {site.name}`",
        )
