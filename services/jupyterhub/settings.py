"""What site.yaml sets of JupyterHub."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from strata.models.accelerator_kinds import AcceleratorCounts
from strata.models.base import Model, Unit
from strata.models.types import AbsolutePath, BucketName, Count, DnsLabel, HttpsUrl, IPNetwork, LoginName, Size

Group = Annotated[str, Field(min_length=1, max_length=255)]
"""As the issuer's claim `groups` has it."""

Image = Annotated[str, Field(pattern=r"^[\w.-]+(:[0-9]+)?/[\w./:@-]+$", max_length=500)]


class Profile(Model):
    """A choice of users who start a server; open to all users unless it lists tenants, groups or users."""

    name: Annotated[DnsLabel, Field(description="Name of the profile, unique.")]
    title: Annotated[
        str | None, Field(min_length=1, max_length=100, description="Title in the list of profiles. Default: the name.")
    ] = None
    description: Annotated[str, Field(max_length=500, description="Text below the title.")] = ""
    cpu: Annotated[Count, Unit("CPUs"), Field(description="CPUs that a server may use.")] = 2
    guaranteed_millicpus: Annotated[
        Count, Unit("thousandths of a CPU"), Field(description="CPU time reserved for a server.")
    ] = 100
    memory: Annotated[
        Size, Field(description="Memory that a server may use; if it exceeds this, its largest kernel is killed.")
    ]
    guaranteed_memory: Annotated[
        Size | None, Field(description="Memory reserved for a server. Default: all of `memory`.")
    ] = None
    accelerators: Annotated[
        AcceleratorCounts,
        Unit("cards"),
        Field(max_length=1, description="Accelerators of a server, of one kind."),
    ] = Field(default_factory=dict)
    tenants: Annotated[tuple[DnsLabel, ...], Field(description="Tenants whose members may start it.")] = ()
    groups: Annotated[tuple[Group, ...], Field(description="Groups of the issuer whose members may start it.")] = ()
    users: Annotated[tuple[LoginName, ...], Field(description="Users who may start it.")] = ()

    @property
    def restricted(self) -> bool:
        """Whether some users may not start it."""
        return bool(self.tenants or self.groups or self.users)


class Culling(Model):
    """When servers are stopped; homes are kept."""

    idle_seconds: Annotated[
        Count, Unit("seconds"), Field(description="Time after which a server without activity is stopped.")
    ] = 3600
    check_seconds: Annotated[Count, Unit("seconds"), Field(description="Time between checks.")] = 30
    maximum_age_seconds: Annotated[
        Count | None,
        Unit("seconds"),
        Field(description="Time after which a server is stopped even if it is active. Default: never."),
    ] = None


class DatasetEndpoint(Model):
    """An S3 endpoint with a key, which the operator provides: the secrets `dataset_<name>_access_key` and
    `dataset_<name>_secret_key`."""

    name: Annotated[DnsLabel, Field(description="Name of the endpoint in datasets, unique.")]
    url: Annotated[HttpsUrl, Field(description="URL of the endpoint, for path-style requests.")]
    region: Annotated[
        str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$", description="Region that requests are signed for.")
    ] = "us-east-1"
    buckets: Annotated[
        tuple[BucketName, ...], Field(min_length=1, description="Buckets that the tenants may read with the key.")
    ]
    tenants: Annotated[
        tuple[DnsLabel, ...], Field(description="Tenants whose datasets may name the endpoint. Default: all.")
    ] = ()


class DatasetFolder(Model):
    """A folder of an NFS server, which servers mount read-only."""

    name: Annotated[
        DnsLabel, Field(max_length=40, description="Name of the folder in datasets, `nfs://<name>`; unique.")
    ]
    server: Annotated[
        str | None,
        Field(
            pattern=r"^[A-Za-z0-9]([A-Za-z0-9.:-]{0,251}[A-Za-z0-9])?$",
            description="Name or address of the server, as nodes and pods resolve it. Default: the site's NFS server.",
        ),
    ] = None
    path: Annotated[
        AbsolutePath,
        Field(description="Folder, as clients mount it; on the site's server, /<export> or a folder below it."),
    ]
    tenants: Annotated[
        tuple[DnsLabel, ...], Field(description="Tenants whose datasets may name the folder. Default: all.")
    ] = ()


class Datasets(Model):
    """Datasets that tenants register: allowed sources, and limits of the downloads when a server starts."""

    maximum_size: Annotated[
        Size, Field(description="Maximum size of a downloaded dataset. The node's disk stores one copy per server.")
    ] = Size.parse("2 GiB")
    download_seconds: Annotated[
        Count | None,
        Unit("seconds"),
        Field(
            description="Time limit for the downloads of a server; datasets that take longer are unreachable. "
            "Default: half of `start_seconds`."
        ),
    ] = None
    s3: Annotated[
        tuple[DatasetEndpoint, ...],
        Field(description="S3 endpoints with keys, besides the site's own and public ones, which need no entry."),
    ] = ()
    nfs: Annotated[
        tuple[DatasetFolder, ...],
        Field(description="NFS folders that tenants may use. Nodes mount them as root, so tenants cannot use others."),
    ] = ()
    networks: Annotated[
        tuple[IPNetwork, ...],
        Field(
            description="Private networks that users' servers may reach, on port 443 and the ports of `s3`. "
            "Public addresses need no entry."
        ),
    ] = ()


class JupyterHub(Model):
    """JupyterLab for each user, with a home on NFS and accelerators, at https://<hostname>.<domain>/."""

    hostname: Annotated[DnsLabel, Field(description="Responds at https://<hostname>.<domain>.")] = "jupyter"
    profiles: Annotated[
        tuple[Profile, ...],
        Field(min_length=1, description="Profiles for users to choose from; the first is the default."),
    ] = (Profile(name="standard", title="2 CPUs, 2 GiB", memory=Size.parse("2 GiB")),)
    images: Annotated[
        tuple[Image, ...],
        Field(
            description="Images that tenants may configure for servers; an entry that ends with / allows all below it."
        ),
    ] = ()
    groups: Annotated[
        tuple[Group, ...], Field(description="Groups of the issuer that may log in, besides the site's tenants.")
    ] = ()
    administrators: Annotated[
        tuple[LoginName, ...],
        Field(description="Users who can see and stop all servers, but cannot open them."),
    ] = ()
    start_seconds: Annotated[
        Count,
        Unit("seconds"),
        Field(description="Maximum time that a server waits for free resources and for its image."),
    ] = 300
    maximum_servers: Annotated[
        Count | None,
        Unit("servers"),
        Field(description="Maximum number of running servers; further ones queue. Default: no limit."),
    ] = None
    culling: Annotated[Culling, Field(description="When servers are stopped.")] = Culling()
    shared_export: Annotated[
        DnsLabel | None,
        Field(
            description="NFS export with `tenants: true`; servers of a tenant's members have the tenant's folder in it "
            "at /shared/<tenant>. Default: no shared folders."
        ),
    ] = None
    datasets: Annotated[Datasets, Field(description="Datasets that tenants register.")] = Datasets()
    homes_size: Annotated[
        Size, Field(description="Capacity of the volume with all homes; an NFS server may not enforce it.")
    ] = Size.parse("10 GiB")
    maximum_home_size: Annotated[
        Size | None,
        Field(
            description="Maximum size of each home, which the NFS server's file system enforces: ext4 or XFS, on a "
            "host with a kernel of its own. Default: none but `homes_size`."
        ),
    ] = None


SECTION = JupyterHub
