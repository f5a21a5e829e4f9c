"""What site.yaml sets of JupyterHub."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from strata.models.accelerators import AcceleratorCounts
from strata.models.base import Model, Unit
from strata.models.types import Count, DnsLabel, LoginName, Size

Group = Annotated[str, Field(min_length=1, max_length=255)]
"""As the issuer's claim `groups` has it."""

Image = Annotated[str, Field(pattern=r"^[\w.-]+(:[0-9]+)?/[\w./:@-]+$", max_length=500)]


class Profile(Model):
    """What a user chooses when a server starts; open to all users unless it names tenants, groups or users."""

    layer: ClassVar[str] = "platform"
    name: Annotated[DnsLabel, Field(description="Name of the profile, unique.")]
    title: Annotated[
        str | None, Field(min_length=1, max_length=100, description="Title in the list of profiles. Default: the name.")
    ] = None
    description: Annotated[str, Field(max_length=500, description="Text below the title.")] = ""
    cpu: Annotated[Count, Unit("CPUs"), Field(description="CPUs that a server may use.")] = 2
    guaranteed_millicpus: Annotated[
        Count, Unit("thousandths of a CPU"), Field(description="CPU time that is reserved for a server.")
    ] = 100
    memory: Annotated[Size, Field(description="Memory that a server may use; beyond it, its largest kernel is killed.")]
    guaranteed_memory: Annotated[
        Size | None, Field(description="Memory that is reserved for a server. Default: all of `memory`.")
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
    """When servers are stopped; homes stay."""

    layer: ClassVar[str] = "platform"
    idle_seconds: Annotated[
        Count, Unit("seconds"), Field(description="Stop a server without activity for this long.")
    ] = 3600
    check_seconds: Annotated[Count, Unit("seconds"), Field(description="Time between two checks.")] = 30
    maximum_age_seconds: Annotated[
        Count | None,
        Unit("seconds"),
        Field(description="Stop a server after this time, active or not. Default: never."),
    ] = None


class Datasets(Model):
    """Downloads of the datasets that tenants register, when a server starts."""

    layer: ClassVar[str] = "platform"
    maximum_size: Annotated[
        Size, Field(description="Largest dataset that is downloaded. The node's disk holds a copy per server.")
    ] = Size.parse("2 GiB")
    download_seconds: Annotated[
        Count | None,
        Unit("seconds"),
        Field(
            description="Time for the downloads of a server; datasets that need longer are unreachable. "
            "Default: half of `start_seconds`."
        ),
    ] = None


class JupyterHub(Model):
    """JupyterLab for each user, with a home on NFS and accelerators, at https://<hostname>.<domain>/."""

    layer: ClassVar[str] = "platform"
    hostname: Annotated[DnsLabel, Field(description="Responds at https://<hostname>.<domain>.")] = "jupyter"
    profiles: Annotated[
        tuple[Profile, ...], Field(min_length=1, description="What users choose from; the first is the default.")
    ] = (Profile(name="standard", title="2 CPUs, 2 GiB", memory=Size.parse("2 GiB")),)
    images: Annotated[
        tuple[Image, ...],
        Field(description="Images that tenants may configure for servers; one that ends with / allows all below it."),
    ] = ()
    groups: Annotated[
        tuple[Group, ...], Field(description="Groups of the issuer that may log in, besides the site's tenants.")
    ] = ()
    administrators: Annotated[
        tuple[LoginName, ...],
        Field(description="Users who see and stop all servers; they cannot open them."),
    ] = ()
    start_seconds: Annotated[
        Count,
        Unit("seconds"),
        Field(description="How long a server may wait for free resources and for its image."),
    ] = 300
    maximum_servers: Annotated[
        Count | None, Unit("servers"), Field(description="Servers of all users at one time. Default: no limit.")
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
