"""Roles: `ansible/roles/<role>/role.yaml`, the description of each."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from strata.errors import UserError

DIRECTORY = Path(__file__).resolve().parents[2] / "ansible" / "roles"
FILE = "role.yaml"
DEBIAN_RELEASES = ("12", "13")
"""Debian releases that the roles are tested on."""

KUBERNETES_ROLES = ("kube_control_plane", "kube_node")
"""Roles that make a host a node of the cluster."""
HOSTS, NODES, PODS = "hosts", "nodes", "pods"
DATABASE_PODS, MONITORING_PODS = "database_pods", "monitoring_pods"
"""Pods of namespaces with a service that needs a database, and of the namespace of the site's Prometheus."""
POD_CLIENTS = (PODS, DATABASE_PODS, MONITORING_PODS)
NO_ROLES = (HOSTS, NODES, *POD_CLIENTS)
"""Clients of a port that are not roles."""

Condition = Literal["archived_postgresql", "balanced_api", "replicated_postgresql", "virtual_address", "volumes"]
"""What a site may be: with `hosts.backup.postgresql`, with several control planes behind its load balancer, with
several PostgreSQL servers, with `hosts.load_balancer`, with volumes of instances."""
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,62}$")]
RoleName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
UnitName = Annotated[str, Field(pattern=r"^[A-Za-z0-9:_.@*-]+$")]
Package = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.+-]+$")]


class RoleModel(BaseModel):
    """Base of what a role.yaml holds: immutable, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ServiceUnit(RoleModel):
    """A systemd service that the role runs."""

    name: Annotated[UnitName, Field(description="Name without .service; * matches what depends on the release.")]
    kernel_name: Annotated[
        UnitName | None, Field(description="Its name on hosts with a kernel of their own, where it differs there.")
    ] = None
    restart: Annotated[
        bool, Field(description="Whether Strata adds Restart=on-failure, for a unit of Debian without it.")
    ] = False
    unless: Annotated[
        RoleName | None, Field(description="Role that runs the service in its place where a host has both.")
    ] = None

    @property
    def file(self) -> str:
        """The unit file, `postgresql@` for all instances of a template."""
        template, at, _ = self.name.partition("@")
        return f"{template}{at}"


class Port(RoleModel):
    """A TCP port that the role opens."""

    name: Annotated[Name, Field(description="What is spoken there.")]
    port: Annotated[int, Field(ge=1, le=65535, description="TCP port.")]
    last: Annotated[int | None, Field(ge=1, le=65535, description="Last port, where it is a range.")] = None
    unit: Annotated[UnitName | None, Field(description="The unit that listens; none: a container.")] = None
    protocol: Annotated[
        Literal["http", "tls", "postgresql", "nfs"] | None,
        Field(description="How `strata status` asks on the host whether the unit answers; none: it does not ask."),
    ] = None
    clients: Annotated[
        tuple[RoleName, ...],
        Field(
            description="Who may connect: hosts (of the site), nodes (of the cluster), pods, hosts with a role. "
            "database_pods, monitoring_pods: pods of namespaces with a database, of the site's Prometheus."
        ),
    ] = ()
    access: Annotated[
        Literal["ssh", "kubernetes_api", "https", "registry"] | None,
        Field(description="Key of `access:` in site.yaml whose networks may connect."),
    ] = None
    when: Annotated[
        Condition | None,
        Field(
            description="balanced_api, replicated_postgresql: only where the role load_balancer forwards to several "
            "API servers, to several PostgreSQL servers."
        ),
    ] = None

    @model_validator(mode="after")
    def _open_to_some_client(self) -> Self:
        if not self.clients and self.access is None:
            raise ValueError("give clients, access or both")
        if self.last is not None and self.last <= self.port:
            raise ValueError("last must be greater than port")
        return self


class Section(RoleModel):
    """The section of site.yaml with what the role serves; section and role need each other."""

    key: Annotated[str, Field(description="Key below `hosts:`.")]
    example: Annotated[str, Field(description="The section in one line, for the error message.")]
    unless: Annotated[
        Literal["databases"] | None,
        Field(description="databases: the section may be missing where services or kine need a database."),
    ] = None


class Needs(RoleModel):
    """What must be there for the role to work."""

    on_host: Annotated[tuple[RoleName, ...], Field(description="Roles that the same host must have.")] = ()
    on_site: Annotated[tuple[RoleName, ...], Field(description="Roles that some host of the site must have.")] = ()
    section: Annotated[Section | None, Field(description="Section of site.yaml below `hosts:`.")] = None
    cluster: Annotated[bool, Field(description="Whether the site must have a cluster.")] = False


class Role(RoleModel):
    """One role: `ansible/roles/<role>/role.yaml`."""

    description: Annotated[str, Field(min_length=10, description="What the role sets up, in one line.")]
    layer: Annotated[Literal["hosts", "cluster"], Field(description="Layer whose playbook runs it.")] = "hosts"
    runs_on: Annotated[
        Literal["assigned", "all", "machines"] | tuple[RoleName, ...],
        Field(
            description="assigned: hosts whose `roles` in site.yaml name it. all: every host. machines: those of "
            "hosts.machines. A list: hosts with one of these roles. Only an assigned role may be named in site.yaml."
        ),
    ] = "assigned"
    when: Annotated[
        Condition | None,
        Field(
            description="replicated_postgresql: only where several hosts have the role postgresql. "
            "archived_postgresql: only with hosts.backup.postgresql. virtual_address: only with hosts.load_balancer. "
            "volumes: only where instances have volumes."
        ),
    ] = None
    hosts: Annotated[Literal["one", "several"], Field(description="How many hosts of a site may have it.")] = "several"
    packages: Annotated[tuple[Package, ...], Field(description="Debian packages.")] = ()
    packages_in_image: Annotated[
        bool,
        Field(
            description="Whether the lab's node image contains the packages. false: the role base installs them where "
            "the role is, as on any other host."
        ),
    ] = True
    container_packages: Annotated[
        tuple[Package, ...], Field(description="Debian packages on hosts that are containers (lab, molecule).")
    ] = ()
    kernel_packages: Annotated[
        tuple[Package, ...], Field(description="Debian packages on hosts with a kernel of their own.")
    ] = ()
    units: Annotated[tuple[ServiceUnit, ...], Field(description="systemd services that status and drift watch.")] = ()
    ports: Annotated[tuple[Port, ...], Field(description="TCP ports that it opens to other machines.")] = ()
    dns_names: Annotated[tuple[Name, ...], Field(description="Names below the site's domain where it responds.")] = ()
    needs: Annotated[Needs, Field(description="What must be there for it to work.")] = Needs()
    after: Annotated[
        tuple[RoleName, ...],
        Field(description="Roles that it does without, and that run before it where a site has them."),
    ] = ()
    data: Annotated[
        str | None,
        Field(description="Data that is lost with its host; removing or replacing such a host requires approval."),
    ] = None
    problems: Annotated[
        str | None,
        Field(description="Command on the host that prints a line for each problem; status shows them."),
    ] = None
    verified_by: Annotated[
        tuple[str, ...],
        Field(
            description="Checks of `strata verify` that exercise it, in src/strata/verify/checks or its own checks/."
        ),
    ] = ()

    @property
    def assignable(self) -> bool:
        """Whether `roles` in site.yaml may name it."""
        return self.runs_on == "assigned"

    def port(self, name: str | None = None) -> int:
        """Number of a port, of the first one without a name."""
        return next(port.port for port in self.ports if name in (None, port.name))

    def ports_for(self, client: str, conditions: Collection[Condition] = ()) -> tuple[int, ...]:
        """Numbers of the ports that list a client, on a site that meets these conditions."""
        return tuple(port.port for port in self.ports if client in port.clients and port.when in (None, *conditions))

    @model_validator(mode="after")
    def _units_of_ports(self) -> Self:
        units = {unit.name for unit in self.units}
        if unknown := sorted({port.unit for port in self.ports if port.unit is not None} - units):
            raise ValueError(f"ports name the units {', '.join(unknown)}, which units does not have")
        return self


@functools.cache
def roles(directory: Path = DIRECTORY) -> Mapping[str, Role]:
    """Every role with a role.yaml, those that others need first.

    Raises:
        UserError: a file does not parse, or names a role that is not there.
    """
    by_name = {file.parent.name: _read(file) for file in sorted(directory.glob(f"*/{FILE}"))}
    for name, role in by_name.items():
        clients = {client for port in role.ports for client in port.clients} - {*NO_ROLES}
        runs_on = role.runs_on if isinstance(role.runs_on, tuple) else ()
        named = (*role.needs.on_host, *role.needs.on_site, *role.after, *runs_on, *sorted(clients))
        for other in named:
            if other not in by_name:
                known = ", ".join(by_name)
                raise UserError(
                    f"{directory / name / FILE}: there is no role {other}",
                    fix=f"one of {known}",
                    see="a-role-cannot-be-used",
                )
    return {name: by_name[name] for name in _in_order(by_name)}


def _in_order(by_name: Mapping[str, Role]) -> list[str]:
    """Names of roles: those that need none by name, then those that need only these, and so on."""
    needs = {name: (*role.needs.on_host, *role.needs.on_site, *role.after) for name, role in by_name.items()}
    sorter = TopologicalSorter(needs)
    try:
        sorter.prepare()
    except CycleError as error:
        raise UserError(
            f"roles need each other in a circle: {' → '.join(reversed(error.args[1]))}",
            fix="break the circle",
            see="a-role-cannot-be-used",
        ) from None
    order: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        order += ready
        sorter.done(*ready)
    return order


def _read(file: Path) -> Role:
    try:
        data: Any = yaml.load(file.read_text(), yaml.CSafeLoader)  # as safe_load, in C
        return Role.model_validate(data)
    except yaml.YAMLError as error:
        raise UserError(f"{file}: {error}", fix="correct the YAML", see="a-role-cannot-be-used") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise UserError(
            f"{file}: {key or 'role'}: {first['msg']}",
            fix="the keys are those of strata.roles.Role",
            see="a-role-cannot-be-used",
        ) from None


def assignable_roles() -> tuple[str, ...]:
    """Names of the roles that a host of site.yaml may have."""
    return tuple(name for name, role in roles().items() if role.assignable)


def machine_roles() -> tuple[str, ...]:
    """The roles of machines, which no security group of a cloud covers."""
    return tuple(name for name, role in roles().items() if role.runs_on == "machines")


def roles_of(assigned: tuple[str, ...], conditions: Collection[Condition] = ()) -> tuple[str, ...]:
    """Every role that runs on a host with these roles in site.yaml, in the order in which they run.

    Args:
        assigned: roles of the host in site.yaml.
        conditions: those that the site meets.
    """
    return tuple(
        name
        for name, role in roles().items()
        if name in assigned
        or (
            role.when in (None, *conditions)
            and (
                role.runs_on == "all"
                or (isinstance(role.runs_on, tuple) and not set(role.runs_on).isdisjoint(assigned))
            )
        )
    )


def port(role: str, name: str | None = None) -> int:
    """A port of a role: the one of this name, else the first."""
    return roles()[role].port(name)


def clients_of(role: str) -> tuple[str, ...]:
    """Roles whose hosts may connect to the first port of a role."""
    return tuple(client for client in roles()[role].ports[0].clients if client in roles())


def units_of(names: Iterable[str]) -> tuple[str, ...]:
    """The units that the roles of a host run, each once."""
    there = tuple(names)
    units = (unit for name in there for unit in roles()[name].units if unit.unless not in there)
    return tuple(dict.fromkeys(unit.name for unit in units))


def kernel_names(names: Iterable[str]) -> dict[str, str]:
    """Unit to its name on a host with a kernel of its own, for units that have another one there."""
    units = (unit for name in names for unit in roles()[name].units)
    return {unit.name: unit.kernel_name for unit in units if unit.kernel_name is not None}
