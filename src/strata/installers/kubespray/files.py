"""What Kubespray reads of a site: its inventory and variables, and one file with the secrets in them."""

from __future__ import annotations

import base64
import secrets
import shlex
from collections.abc import Mapping

import yaml

from strata.access.route import ROOT, route
from strata.catalogue.cluster_login import CLIENT, PREFIX, ClusterLogin, cluster_login
from strata.catalogue.issuer import GROUPS_CLAIM, USERNAME_CLAIM
from strata.inventory.clients import NODES, NODES_SECRET
from strata.inventory.kubernetes import cluster_of, endpoint, image_repository, registry_name
from strata.inventory.port_numbers import KUBERNETES_API, REGISTRY
from strata.inventory.topology import service_names
from strata.models.gpu_nodes import gpu_nodes, node_labels
from strata.models.kubespray import Kubespray
from strata.models.site import Site
from strata.site.context import SiteContext
from strata.site.host_list import Host, address_of, api_address, hosts
from strata.site.installer_facts import virtual_address
from strata.site.outputs import CloudOutputs
from strata.site.paths import SitePaths
from strata.toolchain.versions import load_versions

ENCRYPTION_SECRET = "kubespray_encryption_key"  # noqa: S105  # a name
"""Secret with the key of Secrets at rest; 32 characters, as secretbox takes them."""
KUBESPRAY_PLUGINS = {"routes": "cni"}
"""Network plugin in site.yaml to that of Kubespray, where the names differ; `cni` installs programs only."""
DOWNLOADS = {
    "github_url": "github.com",
    "dl_k8s_io_url": "dl.k8s.io",
    "storage_googleapis_url": "storage.googleapis.com",
    "get_helm_url": "get.helm.sh",
}
"""Variable with the address of a download host to its folder in `cluster.kubespray.files_url`."""
ROLES = ("kube_control_plane", "kube_node", "gpu_node")
"""Roles that are groups of the inventory; Kubespray knows the first two."""
HOSTS = "hosts.yml"
VARIABLES = "group_vars/all/strata.yml"
NAMES = "group_vars/all/names.yml"
"""Names of the site's services for CoreDNS: they change with services, and only CoreDNS is applied again."""
STATE = "group_vars/all/state.yml"
"""Variables of Strata's own (`strata_…`) with secrets and the CA; the other files refer to them."""


def public_files(site: Site, outputs: CloudOutputs | None) -> dict[str, str]:
    """Files without secrets by their path in the inventory directory.

    Args:
        site: its cluster is installed by Kubespray.
        outputs: addresses of the instances; None before the cloud layer ran, then only machines are in the inventory.
    """
    return {
        HOSTS: _yaml(inventory(site, outputs)),
        VARIABLES: _yaml(_variables(site, outputs)),
        NAMES: _yaml(_names(site, outputs)),
        "group_vars/gpu_node/strata.yml": _yaml(_gpu_variables(site)),
    }


def state_file(context: SiteContext) -> str:
    """The text of STATE; makes secrets that do not exist yet."""
    values = {"strata_encryption_key": context.secrets.get(ENCRYPTION_SECRET, lambda: secrets.token_hex(16))}
    if address_of("registry", context.site, context.cloud_outputs) is not None:
        credentials = f"{NODES}:{context.secrets.get(NODES_SECRET)}"
        values["strata_registry_authorization"] = f"Basic {base64.b64encode(credentials.encode()).decode()}"
    login = cluster_login(context.site)
    if login is not None and (authority := _authority(login, context)):
        values["strata_issuer_ca"] = authority
    # an unsafe string is none of Jinja's
    return "".join(f"{name}: !unsafe {_yaml_string(value)}\n" for name, value in values.items())


def _authority(login: ClusterLogin, context: SiteContext) -> str:
    """PEM of the CA that signs the issuer's certificate; empty for a public one."""
    if login.site_ca:
        return context.secrets.ca
    return "" if login.ca_file is None else (context.site_file.parent / login.ca_file).read_text()


def _yaml(content: Mapping[str, object]) -> str:
    return yaml.safe_dump(dict(content), sort_keys=False)


def _yaml_string(text: str) -> str:
    return yaml.safe_dump(text, default_style='"', width=2**31).rstrip("\n")


def nodes(site: Site, outputs: CloudOutputs | None) -> tuple[Host, ...]:
    """The hosts of the cluster, in the site's order."""
    return tuple(host for host in hosts(site, outputs) if set(host.roles) & set(ROLES))


def inventory(site: Site, outputs: CloudOutputs | None) -> dict[str, dict[str, dict[str, dict[str, object]]]]:
    """Hosts with their variables, and the groups that Kubespray expects."""
    accelerators, hosts = gpu_nodes(site), nodes(site, outputs)
    by_name: dict[str, dict[str, object]] = {}
    for host in hosts:
        by_name[host.name] = {
            "ansible_host": host.address,
            "ip": host.address,
            "ansible_ssh_common_args": _ssh_arguments(site, outputs, host),
        }
        if "kube_control_plane" in host.roles:
            by_name[host.name]["etcd_member_name"] = host.name
            # else a fact, without which the member of a host that is gone is not removed (kubespray#12986)
            by_name[host.name]["etcd_access_address"] = host.address
        if host.name in accelerators:
            by_name[host.name]["node_labels"] = node_labels(site, accelerators[host.name], host.name)
    children: dict[str, dict[str, object]] = {
        role: {"hosts": {host.name: {} for host in hosts if role in host.roles}} for role in ROLES
    }
    children["etcd"] = {"children": {"kube_control_plane": {}}}
    return {"all": {"hosts": by_name, "children": children}}


def _ssh_arguments(site: Site, outputs: CloudOutputs | None, host: Host) -> str:
    """Options of `ssh` that Ansible splits as a shell does; the same route as that of Strata's own playbooks."""
    paths = SitePaths(site.name)
    settings = (f"UserKnownHostsFile={paths.known_hosts}", "StrictHostKeyChecking=accept-new")
    words = [w for s in (*settings, *route(site, outputs, paths, host.address)) for w in ("-o", s)]
    return shlex.join(words)


def _variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    cluster = cluster_of(site)
    section = cluster.kubespray or Kubespray()
    variables: dict[str, object] = {
        "ansible_user": site.hosts.ssh_user,
        "ansible_become": site.hosts.ssh_user != ROOT,
        "ansible_ssh_private_key_file": str(SitePaths(site.name).ssh_key),
        "kube_version": load_versions().components["kubernetes"].version,
        "container_manager": "containerd",
        "kube_network_plugin": KUBESPRAY_PLUGINS.get(section.network_plugin, section.network_plugin),
        "kube_pods_subnet": str(cluster.pod_network),
        "kube_service_addresses": str(cluster.service_network),
        "kube_network_node_prefix": 24,
        "kube_proxy_mode": "nftables",
        # policies of services name the pods of the cluster's DNS, which this cache would hide
        "enable_nodelocaldns": False,
        # the role base writes it
        "resolvconf_mode": "none",
        "kubernetes_audit": True,
        "kube_encrypt_secret_data": True,
        "kube_encrypt_token": "{{ strata_encryption_key }}",
        "kube_apiserver_enable_admission_plugins": ["NodeRestriction", "DenyServiceExternalIPs"],
        "auto_renew_certificates": True,
        "kubeconfig_localhost": True,
        "containerd_registries_mirrors": _registries(site, outputs, section),
    }
    if section.network_plugin == "routes":
        # the role pod_network follows: Kubespray must not wait until a new control plane is ready
        variables["control_plane_node_become_ready_tries"] = 0
    variables |= _virtual_address(site, outputs) | _images(site, outputs, section) | _login(site, outputs)
    if section.files_url is not None:
        variables |= {variable: f"{section.files_url.rstrip('/')}/{folder}" for variable, folder in DOWNLOADS.items()}
    return variables | dict(section.variables)


def _names(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """What pods resolve beside the cluster's names: the site's services, as /etc/hosts of the hosts has them."""
    lines = [f"{entry['address']} {entry['name']}" for entry in service_names(site, outputs)]
    return {"dns_etchosts": "\n".join(lines)} if lines else {}


def _images(site: Site, outputs: CloudOutputs | None, section: Kubespray) -> dict[str, object]:
    """Where Kubernetes' own images come from."""
    if section.images == "upstream":
        return {}
    repository, tools = image_repository(site, outputs), load_versions().tools
    return {
        "kube_image_repo": repository,
        "coredns_image_repo": f"{repository}/coredns",
        "coredns_image_tag": f"v{tools['coredns'].version}",
        "pod_infra_version": tools["pause"].version,
    }


def _virtual_address(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    address = virtual_address(site)
    if address is None:
        # a proxy on each node; clients outside have the first control plane, at its floating IP where it has one
        inside, outside = api_address(site, outputs), api_address(site, outputs, outside=True)
        names = {"supplementary_addresses_in_ssl_keys": [outside]} if outside != inside else {}
        return {"kubeconfig_localhost_ansible_host": True, **names}
    return {
        "kube_vip_enabled": True,
        "kube_vip_controlplane_enabled": True,
        "kube_vip_arp_enabled": True,
        "kube_vip_address": address,
        "loadbalancer_apiserver": {"address": address, "port": KUBERNETES_API},
        "supplementary_addresses_in_ssl_keys": [address],
    }


def _login(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:
    """Whose tokens the API server accepts; nothing for a site without an issuer."""
    login = cluster_login(site)
    if login is None:
        return {}
    issuer: dict[str, object] = {"url": login.url, "audiences": [CLIENT]}
    if login.site_ca or login.ca_file is not None:
        issuer["certificateAuthority"] = "{{ strata_issuer_ca }}"
    variables: dict[str, object] = {
        "kube_apiserver_use_authentication_config_file": True,
        "kube_apiserver_authentication_config_jwt": [
            {
                "issuer": issuer,
                "claimMappings": {
                    "username": {"claim": USERNAME_CLAIM, "prefix": PREFIX},
                    "groups": {"claim": GROUPS_CLAIM, "prefix": PREFIX},
                },
                "claimValidationRules": [
                    {
                        "expression": "claims.exp - claims.iat <= 86400",
                        "message": "the token is valid for more than a day",
                    }
                ],
                "userValidationRules": [
                    {"expression": f"user.username != {PREFIX!r}", "message": "the token names no user"},
                    {
                        "expression": "!user.username.startsWith('system:')",
                        "message": "the name of a user must not be one of Kubernetes' own",
                    },
                    {
                        "expression": "user.groups.all(group, !group.startsWith('system:'))",
                        "message": "the group of a user must not be one of Kubernetes' own",
                    },
                ],
            }
        ],
    }
    address = address_of("load_balancer", site, outputs) if login.host.endswith(f".{site.domain}") else None
    if address is not None:
        # the site's names are not in the hosts' DNS before its load balancer runs
        alias = {"spec": {"hostAliases": [{"ip": address, "hostnames": [login.host]}]}}
        variables["kubeadm_patches"] = [{"target": "kube-apiserver", "patch": alias}]
    return variables


def _registries(site: Site, outputs: CloudOutputs | None, section: Kubespray) -> list[dict[str, object]]:
    """The site's own registry, whose CA the role base installs on the hosts, and the mirrors of others."""
    entries: list[dict[str, object]] = []
    address = address_of("registry", site, outputs)
    if address is not None:
        own = {
            "host": endpoint(address, REGISTRY),
            "capabilities": ["pull", "resolve"],
            "header": {"Authorization": "{{ strata_registry_authorization }}"},
        }
        entries.append({"prefix": registry_name(site), "mirrors": [own]})
    for mirror in section.registry_mirrors:
        other = {"host": mirror.url, "capabilities": ["pull", "resolve"], "skip_verify": mirror.insecure}
        entries.append({"prefix": mirror.name, "mirrors": [other]})
    return entries


def _gpu_variables(site: Site) -> dict[str, object]:
    """Taints of GPU nodes; the runtime that NVIDIA's container toolkit installs, where it has GPUs of NVIDIA's."""
    variables: dict[str, object] = {"node_taints": list(cluster_of(site).gpu_nodes.taints)}
    kinds = {kind for accelerators in gpu_nodes(site).values() for kind in accelerators}
    if any(site.accelerators[kind].compute_capability for kind in kinds):
        variables["containerd_additional_runtimes"] = [
            {
                "name": "nvidia",
                "type": "io.containerd.runc.v2",
                "base_runtime_spec": "cri-base.json",
                "options": {
                    "BinaryName": "/usr/bin/nvidia-container-runtime",
                    "SystemdCgroup": "{{ containerd_use_systemd_cgroup | ternary('true', 'false') }}",
                },
            }
        ]
        variables["enable_cdi"] = True
    return variables
