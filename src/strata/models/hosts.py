"""The hosts layer: what Ansible sets up on instances and machines."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, Field, StrictBool, model_validator
from pydantic_core import PydanticCustomError

from strata.models.accelerator_kinds import AcceleratorCounts
from strata.models.base import Model, RoleSection, Unit, with_sections
from strata.models.pci_passthrough import PciPassthrough
from strata.models.types import (
    AbsolutePath,
    BucketName,
    Count,
    DatabaseName,
    DataItem,
    DnsLabel,
    HoursInterval,
    HttpsUrl,
    IPAddress,
    IPNetwork,
    LoginName,
    PublicKey,
    SettingName,
    SettingValue,
    SiteFile,
    Size,
)
from strata.role_modules import role_module
from strata.roles import assignable_roles, roles

if TYPE_CHECKING:
    Role = str
else:  # the roles of this checkout
    Role = Literal[assignable_roles()]
SettingsT = TypeVar("SettingsT", bound=Model)
SYSTEM_USERS = frozenset({"root", "daemon", "bin", "sys", "nobody", "postgres", "kine", "sshd", "statd", "haproxy"})
"""Accounts that are not a person's; root is how Strata itself comes in."""
OWN_SETTINGS = frozenset(
    {
        *("listen_addresses", "port", "password_encryption", "data_directory", "hba_file", "ident_file"),
        *("ssl", "ssl_cert_file", "ssl_key_file", "ssl_min_protocol_version", "unix_socket_directories"),
    }
)
"""Settings of PostgreSQL on which the site itself depends."""


class Machine(Model):
    """A host that is not an instance of the cloud: bare metal, or a server of another institution."""

    name: Annotated[DnsLabel, Field(description="Host name.")]
    address: Annotated[IPAddress, Field(description="Address for SSH.")]
    roles: Annotated[tuple[Role, ...], Field(min_length=1, description="Roles; each is also an Ansible group.")]
    accelerators: Annotated[AcceleratorCounts, Unit("cards"), Field(description="Number of cards, by kind.")] = Field(
        default_factory=dict
    )
    pci_passthrough: Annotated[
        PciPassthrough | None,
        Field(description="Its PCI devices, for the role pci_passthrough. Default: all cards of accelerators."),
    ] = None
    cpus: Annotated[Count | None, Unit("CPUs"), Field(description="CPUs; needed with the role slurm_node.")] = None
    memory: Annotated[Size | None, Field(description="Memory; needed with the role slurm_node.")] = None
    institution: Annotated[DnsLabel | None, Field(description="Institution that owns it.")] = None
    zone: Annotated[DnsLabel | None, Field(description="Failure domain: room, site, network.")] = None


def export_id(name: str) -> int:
    """Number of an NFS export in the server's file handles.

    By the name, so that clients keep what they have mounted when another export comes or goes.
    """
    return int(hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()[:8], 16) % 65535 + 1


class NfsExport(Model):
    """A directory that the NFS server exports."""

    name: Annotated[DnsLabel, Field(description="Name of the export.")]
    path: Annotated[AbsolutePath, Field(description="Directory on the server.")]
    clients: Annotated[
        tuple[IPNetwork, ...],
        Field(
            description="Networks that may mount it, besides the site's nodes and transfer nodes; never a pod network."
        ),
    ] = ()
    read_only: Annotated[StrictBool, Field(description="Whether clients may only read.")] = False
    root: Annotated[
        StrictBool,
        Field(
            description="Whether root on a client is root here, as volume provisioners need; otherwise, it is nobody."
        ),
    ] = False
    tenants: Annotated[
        StrictBool,
        Field(
            description="Whether it contains one folder per tenant, with the tenant's name, which only the tenant's "
            "group_id may enter; files cannot be created outside of these folders."
        ),
    ] = False


class Nfs(Model):
    """Shared file storage."""

    exports: Annotated[tuple[NfsExport, ...], Field(min_length=1, description="Exported directories.")]
    volumes: Annotated[
        AbsolutePath,
        Field(description="Directory on the server for the volumes of services; each volume is a separate export."),
    ] = Path("/srv/nfs/volumes")


class LoadBalancer(Model):
    """The address that the hosts with the role load_balancer share."""

    virtual_address: Annotated[
        IPAddress,
        Field(
            description="IPv4 address of the active load balancer, which another one takes over if it is lost. The "
            "address must be in their network, outside of its allocation pool."
        ),
    ]
    floating_ip: Annotated[
        StrictBool,
        Field(description="Whether it gets an address of the external network, at which it is reachable from outside."),
    ] = False


class PostgreSQL(Model):
    """Relational databases."""

    databases: Annotated[
        tuple[DatabaseName, ...],
        Field(
            description="Databases; each has an owner of the same name. The database of kine is added if kine is used."
        ),
    ] = ()
    settings: Annotated[
        dict[SettingName, SettingValue],
        Field(
            description="Settings of postgresql.conf, name to value. The server checks them before they are "
            "written, and is restarted only for settings that require it."
        ),
    ] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _no_own_settings(self) -> Self:
        for name in self.settings:
            if name in OWN_SETTINGS:
                raise PydanticCustomError(
                    "own_setting",
                    "has {name}, which Strata sets itself",
                    {"key": "settings", "name": name, "fix": f"remove the line {name}"},
                )
        return self


class Registry(Model):
    """The site's image registry; every request requires a password."""

    robots: Annotated[
        tuple[DnsLabel, ...],
        Field(
            description="Programs that may pull, besides the site's nodes; each logs in as robot-<name> with the "
            "secret registry_robot_<name>_password."
        ),
    ] = ()


class Keep(Model):
    """Number of snapshots to keep of each export and database."""

    daily: Annotated[Count, Unit("days"), Field(description="Number of days of which the last snapshot is kept.")] = 7
    weekly: Annotated[
        Count, Unit("weeks"), Field(description="Number of weeks of which the last snapshot is kept.")
    ] = 5
    monthly: Annotated[
        Count, Unit("months"), Field(description="Number of months of which the last snapshot is kept.")
    ] = 12


class PostgreSQLArchive(Model):
    """Continuous backups of the PostgreSQL servers by pgBackRest, for restores to a point in time."""

    interval: Annotated[
        HoursInterval,
        Unit("hours"),
        Field(
            description="Time between backups, starting at `hour`. One a day is differential, the others incremental."
        ),
    ] = 6
    full_interval: Annotated[Count, Unit("days"), Field(description="Time between full backups.")] = 7
    keep_full: Annotated[
        Count,
        Field(description="Full backups to keep, with the WAL and the other backups since the oldest one."),
    ] = 4
    maximum_archive_age: Annotated[
        Count,
        Unit("minutes"),
        Field(
            description="Age at which `strata status` reports WAL that is not archived. WAL is archived every minute."
        ),
    ] = 15


class Backup(RoleSection):
    """Daily backups of NFS exports and databases, encrypted, to S3 outside of the site."""

    url: Annotated[HttpsUrl, Field(description="S3 endpoint, for path-style requests; not the site's own.")]
    bucket: Annotated[BucketName, Field(description="Bucket; its repositories are <site>/<host>.")]
    region: Annotated[DnsLabel, Field(description="Region that requests are signed for.")] = "us-east-1"
    ca_file: Annotated[
        SiteFile | None,
        Field(description="PEM file of the CA of its certificate, relative to the site file. Default: public CAs."),
    ] = None
    exclude: Annotated[
        tuple[DataItem, ...], Field(description="Items that are not backed up: export/<name>, database/<name>.")
    ] = ()
    hour: Annotated[
        int,
        Unit("hour of the day"),
        Field(strict=True, ge=0, le=23, description="Hour at which backups start, at half past."),
    ] = 2
    keep: Annotated[Keep, Field(description="Number of snapshots to keep.")] = Keep()
    maximum_age: Annotated[
        Count, Unit("hours"), Field(description="Age at which `strata status` reports a backup as too old.")
    ] = 30
    postgresql: Annotated[
        PostgreSQLArchive | None,
        Field(
            description="Backups of whole PostgreSQL servers, in <site>/postgresql of the bucket; {} selects the "
            "defaults. Default: none; the role backup dumps the databases of a single server."
        ),
    ] = None

    @property
    def needs_role(self) -> bool:
        """Not where pgBackRest backs up the servers, which may be all that stores data."""
        return self.postgresql is None


class Operator(Model):
    """A person who logs in to the site's hosts, with SSH keys only."""

    name: Annotated[LoginName, Field(description="Login name.")]
    keys: Annotated[
        tuple[PublicKey, ...],
        Field(
            min_length=1, description="SSH public keys; a key that is removed from this list is removed from all hosts."
        ),
    ]
    administrator: Annotated[StrictBool, Field(description="Whether the operator may become root.")] = False

    @model_validator(mode="after")
    def _a_person(self) -> Self:
        if self.name in SYSTEM_USERS:
            raise PydanticCustomError(
                "system_user", "is an account of the system", {"key": "name", "fix": "a name of a person"}
            )
        return self


class HostsSection(Model):
    """Hosts and their services."""

    machines: Annotated[tuple[Machine, ...], Field(description="Hosts that are not instances of the cloud.")] = ()
    firewall: Annotated[
        StrictBool,
        Field(
            description="Whether `machines` refuse all connections except those for roles and `access` (nftables, role "
            "firewall). Set false if another firewall does; one that Strata installed remains until you disable it."
        ),
    ] = True
    operators: Annotated[
        tuple[Operator, ...],
        Field(description="Accounts of people; removing one from this list deletes it, but keeps its home directory."),
    ] = ()
    load_balancer: Annotated[
        LoadBalancer | None,
        Field(
            description="Virtual address of the load balancers; required if several hosts have the role "
            "load_balancer. Default: none, a single load balancer is reached at its own address."
        ),
    ] = None
    nfs: Annotated[Nfs | None, Field(description="Shared file storage; needs a host with the role nfs_server.")] = None
    postgresql: Annotated[PostgreSQL | None, Field(description="Databases; needs a host with the role postgresql.")] = (
        None
    )
    registry: Annotated[Registry, Field(description="Access to the registry, besides that of the nodes.")] = Registry()
    backup: Annotated[Backup | None, Field(description="Daily backups; needs hosts with the role backup.")] = None
    ssh_user: Annotated[
        LoginName,
        Field(description="Login name on all hosts; a user other than root needs sudo without a password."),
    ] = "root"
    bastion: Annotated[
        DnsLabel | None,
        Field(
            description="Host through which SSH reaches all others: an instance with a floating IP, or a machine. The "
            "others then accept SSH only from this host."
        ),
    ] = None

    def section(self, settings: type[SettingsT]) -> SettingsT | None:
        """The section of a role that describes it in its settings.py; None if site.yaml has none."""
        values = (getattr(self, key) for key in type(self).model_fields)
        return next((value for value in values if isinstance(value, settings)), None)


def _role_sections() -> Iterator[tuple[str, type[BaseModel]]]:
    """Key and model of the sections that roles describe in their folders."""
    for name, role in roles().items():
        module = role_module(name, "settings")
        if module is not None and role.needs.section is not None:
            yield role.needs.section.key, module.SECTION


if TYPE_CHECKING:
    Hosts = HostsSection
else:
    Hosts = with_sections(HostsSection, "Hosts", dict(_role_sections()))
