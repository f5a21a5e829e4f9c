"""A cluster that Kubespray installs: its network plugin, its API's address and where its downloads come from."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictBool, StringConstraints

from strata.models.base import Model
from strata.models.types import HttpsUrl, IPAddress

RegistryHost = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(:[1-9][0-9]{0,4})?$", max_length=259)
]
MirrorUrl = Annotated[
    str, StringConstraints(pattern=r"^https?://[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(:[1-9][0-9]{0,4})?$")
]


class RegistryMirror(Model):
    """Where containerd pulls the images of a registry."""

    layer: ClassVar[str] = "cluster"
    name: Annotated[RegistryHost, Field(description="Its host in image references, for instance docker.io.")]
    url: Annotated[MirrorUrl, Field(description="The mirror, for instance https://mirror.example.org:5000.")]
    insecure: Annotated[
        StrictBool, Field(description="Whether containerd accepts a certificate of the mirror that no known CA signed.")
    ] = False


class Kubespray(Model):
    """How Kubespray installs the cluster."""

    layer: ClassVar[str] = "cluster"
    network_plugin: Annotated[
        Literal["calico", "cilium"],
        Field(description="Network plugin; both enforce NetworkPolicies."),
    ] = "calico"
    api_address: Annotated[
        IPAddress | None,
        Field(
            description="Virtual address of the API server, which kube-vip moves between the control planes. "
            "Default: the first control plane's address."
        ),
    ] = None
    files_url: Annotated[
        HttpsUrl | None,
        Field(description="Mirror of Kubespray's downloads: a folder for each host. Default: the projects' own sites."),
    ] = None
    registry_mirrors: Annotated[
        tuple[RegistryMirror, ...],
        Field(description="Mirrors of container registries. Default: images come from the registries themselves."),
    ] = ()
