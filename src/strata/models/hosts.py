"""The hosts layer: what Ansible sets up on instances and machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, StrictBool, model_validator
from pydantic_core import PydanticCustomError

from strata.models.accelerators import AcceleratorCounts
from strata.models.base import Model, Unit
from strata.models.slurm import Slurm
from strata.models.types import (
    AbsolutePath,
    BucketName,
    Count,
    DatabaseName,
    DataItem,
    DnsLabel,
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
from strata.roles import assignable_roles

if TYPE_CHECKING:
    Role = str
else:  # the roles of this checkout
    Role = Literal[assignable_roles()]
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
    """A machine that is no instance of the cloud: bare metal, or another institution's."""

    layer: ClassVar[str] = "hosts"
    name: Annotated[DnsLabel, Field(description="Host name.")]
    address: Annotated[IPAddress, Field(description="Where Ansible reaches it over SSH.")]
    roles: Annotated[
        tuple[Role, ...], Field(min_length=1, description="What it does; each is an Ansible group and a role.")
    ]
    accelerators: Annotated[AcceleratorCounts, Unit("cards"), Field(description="Cards in it, by kind.")] = Field(
        default_factory=dict
    )
    cpus: Annotated[Count | None, Unit("CPUs"), Field(description="CPUs; needed with the role slurm_node.")] = None
    memory: Annotated[Size | None, Field(description="Memory; needed with the role slurm_node.")] = None
    institution: Annotated[DnsLabel | None, Field(description="Who owns it.")] = None
    zone: Annotated[DnsLabel | None, Field(description="Failure domain: room, site, network.")] = None


class NfsExport(Model):
    """A directory that the NFS server offers."""

    layer: ClassVar[str] = "hosts"
    name: Annotated[DnsLabel, Field(description="Name of the export.")]
    path: Annotated[AbsolutePath, Field(description="Directory on the server.")]
    clients: Annotated[
        tuple[IPNetwork, ...],
        Field(
            description="Networks that may mount it beside the site's nodes and transfer nodes; never a pod network."
        ),
    ] = ()
    read_only: Annotated[StrictBool, Field(description="Whether clients may only read.")] = False
    root: Annotated[
        StrictBool,
        Field(description="Whether root of a client is root here, as provisioners of volumes need; else it is nobody."),
    ] = False
    tenants: Annotated[
        StrictBool,
        Field(
            description="Whether it holds one folder per tenant, named after it, that only the tenant's group_id may "
            "enter; the export itself then takes no files."
        ),
    ] = False


class Nfs(Model):
    """Shared file storage."""

    layer: ClassVar[str] = "hosts"
    exports: Annotated[tuple[NfsExport, ...], Field(min_length=1, description="Directories that are offered.")]
    volumes: Annotated[
        AbsolutePath,
        Field(description="Directory on the server that holds the volumes of services, each an export of its own."),
    ] = Path("/srv/nfs/volumes")


class PostgreSQL(Model):
    """Relational databases."""

    layer: ClassVar[str] = "hosts"
    databases: Annotated[
        tuple[DatabaseName, ...],
        Field(description="Databases; each has an owner of the same name. kine's own is added where it is used."),
    ] = ()
    settings: Annotated[
        dict[SettingName, SettingValue],
        Field(
            description="Settings as in postgresql.conf, name to value. The server checks them before they are "
            "written, and is restarted only for those that it cannot take over while it runs."
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
    """The site's image registry; every access needs a password."""

    layer: ClassVar[str] = "hosts"
    consumers: ClassVar[tuple[str, ...]] = ("role registry",)
    robots: Annotated[
        tuple[DnsLabel, ...],
        Field(
            description="Programs that may pull, beside the site's nodes; each logs in as robot-<name> with the secret "
            "registry_robot_<name>_password."
        ),
    ] = ()


class Keep(Model):
    """How many snapshots of each export and database are kept."""

    layer: ClassVar[str] = "hosts"
    daily: Annotated[Count, Unit("days"), Field(description="The last snapshot of each of so many days.")] = 7
    weekly: Annotated[Count, Unit("weeks"), Field(description="The last snapshot of each of so many weeks.")] = 5
    monthly: Annotated[Count, Unit("months"), Field(description="The last snapshot of each of so many months.")] = 12


class Backup(Model):
    """Daily backups of NFS exports and databases, encrypted, to S3 outside of the site."""

    layer: ClassVar[str] = "hosts"
    consumers: ClassVar[tuple[str, ...]] = ("role backup", "strata backup", "strata restore")
    url: Annotated[HttpsUrl, Field(description="S3 endpoint, for path-style requests; not the site's own.")]
    bucket: Annotated[BucketName, Field(description="Bucket; the repositories are in <site>/<host> in it.")]
    region: Annotated[DnsLabel, Field(description="Region that requests are signed for.")] = "us-east-1"
    ca_file: Annotated[
        SiteFile | None,
        Field(
            description="PEM file of the CA that signed its certificate, relative to the site file. Default: public."
        ),
    ] = None
    exclude: Annotated[
        tuple[DataItem, ...], Field(description="What is not backed up: export/<name>, database/<name>.")
    ] = ()
    hour: Annotated[
        int, Unit("hour of the day"), Field(strict=True, ge=0, le=23, description="When it runs, at half past.")
    ] = 2
    keep: Annotated[Keep, Field(description="Snapshots that are kept.")] = Keep()
    maximum_age: Annotated[
        Count, Unit("hours"), Field(description="Age from which `strata status` reports a backup as too old.")
    ] = 30


class DataTransfer(Model):
    """Downloads of data sets on the site's transfer nodes, with aria2."""

    layer: ClassVar[str] = "hosts"
    consumers: ClassVar[tuple[str, ...]] = ("role data_transfer",)
    path: Annotated[AbsolutePath, Field(description="Folder of the downloads, or where the export is mounted.")] = Path(
        "/srv/data-transfer"
    )
    export: Annotated[
        DnsLabel | None,
        Field(
            description="NFS export of the site with `tenants: true`; downloads go to the tenant's folder in it. "
            "Default: a folder of the transfer node itself."
        ),
    ] = None
    tenant: Annotated[
        DnsLabel | None,
        Field(
            description="Tenant whose group_id reads the downloads and may queue them, beside the operators. Needed "
            "with `export`. Default: the operators alone."
        ),
    ] = None

    @model_validator(mode="after")
    def _export_of_a_tenant(self) -> Self:
        if self.export is not None and self.tenant is None:
            raise PydanticCustomError(
                "export_tenant",
                "needs a tenant, whose folder in the export takes the downloads",
                {"key": "export", "fix": "add tenant: <name>"},
            )
        return self


class Operator(Model):
    """A person who logs in on the site's hosts, with keys only."""

    layer: ClassVar[str] = "hosts"
    name: Annotated[LoginName, Field(description="Login name.")]
    keys: Annotated[
        tuple[PublicKey, ...],
        Field(min_length=1, description="SSH public keys; one that is taken off this list no longer opens a host."),
    ]
    administrator: Annotated[StrictBool, Field(description="Whether the operator may become root.")] = False

    @model_validator(mode="after")
    def _a_person(self) -> Self:
        if self.name in SYSTEM_USERS:
            raise PydanticCustomError(
                "system_user", "is an account of the system", {"key": "name", "fix": "a name of a person"}
            )
        return self


class Hosts(Model):
    """Machines and the services on them."""

    layer: ClassVar[str] = "hosts"
    machines: Annotated[tuple[Machine, ...], Field(description="Machines that are no instances of the cloud.")] = ()
    firewall: Annotated[
        StrictBool,
        Field(
            description="Whether `machines` refuse connections that no role and no list of `access` names (nftables, "
            "role firewall). false where another firewall does; one that Strata installed stays until it is disabled."
        ),
    ] = True
    operators: Annotated[
        tuple[Operator, ...],
        Field(description="People who log in; one that is taken off this list is removed, the home directory stays."),
    ] = ()
    nfs: Annotated[Nfs | None, Field(description="Shared file storage; needs a host with the role nfs_server.")] = None
    postgresql: Annotated[PostgreSQL | None, Field(description="Databases; needs a host with the role postgresql.")] = (
        None
    )
    slurm: Annotated[Slurm | None, Field(description="Batch system; needs a host with the role slurm_controller.")] = (
        None
    )
    registry: Annotated[Registry, Field(description="Who may pull from the registry, beside the nodes.")] = Registry()
    backup: Annotated[Backup | None, Field(description="Daily backups; needs hosts with the role backup.")] = None
    data_transfer: Annotated[
        DataTransfer | None, Field(description="Downloads; needs hosts with the role data_transfer.")
    ] = None
    ssh_user: Annotated[
        LoginName,
        Field(description="Login name on all hosts; one other than root becomes root by sudo without a password."),
    ] = "root"
    bastion: Annotated[
        DnsLabel | None,
        Field(
            description="Host through which SSH reaches all others: an instance with a floating IP, or a machine. The "
            "others then accept SSH from it alone."
        ),
    ] = None
