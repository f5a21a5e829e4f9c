"""A cluster that Kubespray installs: its network plugin, its API's address and where its downloads come from."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue, StrictBool, StringConstraints

from strata.models.base import Model
from strata.models.types import HttpsUrl, IPAddress

RegistryHost = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(:[1-9][0-9]{0,4})?$", max_length=259)
]
MirrorUrl = Annotated[
    str, StringConstraints(pattern=r"^https?://[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(:[1-9][0-9]{0,4})?$")
]
STRATA_SETS = frozenset(
    {
        "ansible_become",
        "ansible_ssh_private_key_file",
        "ansible_user",
        "auto_renew_certificates",
        "container_manager",
        "containerd_additional_runtimes",
        "containerd_registries_mirrors",
        "coredns_image_repo",
        "coredns_image_tag",
        "dns_etchosts",
        "enable_cdi",
        "enable_nodelocaldns",
        "kube_apiserver_authentication_config_jwt",
        "kube_apiserver_enable_admission_plugins",
        "kube_apiserver_use_authentication_config_file",
        "kube_encrypt_secret_data",
        "kube_encrypt_token",
        "kube_image_repo",
        "kube_network_node_prefix",
        "kube_network_plugin",
        "kube_pods_subnet",
        "kube_proxy_mode",
        "kube_service_addresses",
        "kube_version",
        "kube_vip_address",
        "kube_vip_arp_enabled",
        "kube_vip_controlplane_enabled",
        "kube_vip_enabled",
        "kubeadm_patches",
        "kubeconfig_localhost",
        "kubeconfig_localhost_ansible_host",
        "kubernetes_audit",
        "loadbalancer_apiserver",
        "node_labels",
        "node_taints",
        "pod_infra_version",
        "resolvconf_mode",
        "supplementary_addresses_in_ssl_keys",
    }
)
"""Variables of Kubespray that follow from other keys of the site file, or that the platform relies on."""
VariableName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-zA-Z0-9_]{0,99}$")]


class RegistryMirror(Model):
    """Where containerd pulls the images of a registry."""

    name: Annotated[RegistryHost, Field(description="Host in image references, for instance docker.io.")]
    url: Annotated[MirrorUrl, Field(description="URL of the mirror, for instance https://mirror.example.org:5000.")]
    insecure: Annotated[
        StrictBool,
        Field(description="Whether containerd accepts a certificate of the mirror that is not from a known CA."),
    ] = False


class Kubespray(Model):
    """Settings of Kubespray."""

    network_plugin: Annotated[
        Literal["calico", "cilium", "routes"],
        Field(
            description="Network plugin; each enforces NetworkPolicies. routes: the role pod_network, as with kubeadm, "
            "for nodes on one network that forwards the pods' addresses."
        ),
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
        Field(description="Mirror of Kubespray's downloads, with a folder per host. Default: the projects' own sites."),
    ] = None
    images: Annotated[
        Literal["upstream", "site"],
        Field(
            description="Images of Kubernetes itself. upstream: registry.k8s.io, or its mirror. site: built by Strata, "
            "pushed to the site's registry, as with kubeadm."
        ),
    ] = "upstream"
    variables: Annotated[
        dict[VariableName, JsonValue],
        Field(
            description="Further variables of Kubespray, for all nodes. Refused: names that it does not "
            "define, and those that Strata sets."
        ),
    ] = Field(default_factory=dict)
    registry_mirrors: Annotated[
        tuple[RegistryMirror, ...],
        Field(description="Mirrors of container registries. Default: images come from the registries themselves."),
    ] = ()
