"""What Kolla-Ansible reads, as far as it holds no secrets: the hosts, globals.yml and the services' overrides."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping

import yaml

from strata.cloud.card_placement import MOST_CANDIDATES, cards_in_placement
from strata.models.cloud import Cloud
from strata.models.compute import Hypervisor
from strata.models.kolla import Ceph, Kolla
from strata.models.site import Site
from strata.site.paths import SitePaths

FILTERS = (
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
    "AggregateInstanceExtraSpecsFilter",
    "PciPassthroughFilter",
    "NUMATopologyFilter",
)
"""nova's filters; nova.conf lists all of them, not those beyond the default."""
CA_BUNDLES = {
    "debian": "/etc/ssl/certs/ca-certificates.crt",
    "ubuntu": "/etc/ssl/certs/ca-certificates.crt",
    "rocky": "/etc/pki/tls/certs/ca-bundle.crt",
}
"""The CA certificates in Kolla's images, by distribution."""


def section(site: Site) -> tuple[Cloud, Kolla]:
    """The cloud and its section `kolla`.

    Raises:
        ValueError: the site has neither.
    """
    if site.cloud is None or site.cloud.kolla is None:
        raise ValueError(f"site {site.name} has no cloud.kolla")
    return site.cloud, site.cloud.kolla


def public_files(site: Site) -> dict[str, str]:
    """Files without secrets, by their path below the configuration directory; what `strata plan` compares.

    Args:
        site: its cloud is deployed by Kolla-Ansible.
    """
    cloud, kolla = section(site)
    files = {
        "inventory/10-hosts.yaml": _yaml(_hosts(cloud, kolla)),
        "globals.yml": _yaml(_globals(site, kolla)),
        "config/nova.conf": _nova(site, cloud),
        "config/nova/nova-compute.conf": _nova_compute(site, cloud),
        "config/placement.conf": _placement(),
    }
    for host in cloud.hypervisors:
        if text := _nova_host(host):
            files[f"config/nova/{host.name}/nova.conf"] = text
    if kolla.ceph is not None:
        files |= {f"config/{service}/ceph.conf": _ceph(kolla.ceph) for service in ("glance", "cinder", "nova")}
    return files


def _yaml(content: Mapping[str, object]) -> str:
    return yaml.safe_dump(dict(content), sort_keys=False)


def kinds(cloud: Cloud) -> list[str]:
    """Kinds of accelerators in the hypervisors, sorted."""
    return sorted({kind for host in cloud.hypervisors for kind in host.accelerators})


def login(kolla: Kolla) -> dict[str, object]:
    """Inventory variables of the login on every host of the cloud."""
    become = {} if kolla.login_user == "root" else {"ansible_become": True}
    return {"ansible_user": kolla.login_user, **become}


def _hosts(cloud: Cloud, kolla: Kolla) -> dict[str, object]:
    """The groups that have hosts; the package's own multinode inventory, read after it, has all the others."""

    def hosts(addresses: Mapping[str, object]) -> dict[str, object]:
        return {"hosts": {name: {"ansible_host": str(address), **login(kolla)} for name, address in addresses.items()}}

    children: dict[str, object] = {
        "control": hosts({c.name: c.address for c in kolla.controllers}),
        "network": {"children": {"control": {}}},
        "compute": hosts({h.name: h.address for h in cloud.hypervisors}),
        "monitoring": {"children": {"control": {}}},
        "storage": {"children": {"control": {}}} if kolla.ceph else {"hosts": {}},
    }
    for kind in kinds(cloud):
        children[group(kind)] = {"hosts": {h.name: {} for h in cloud.hypervisors if kind in h.accelerators}}
    return {"all": {"children": children}}


def group(kind: str) -> str:
    """Inventory group of the hypervisors with a kind of accelerator."""
    return f"accelerator_{kind.replace('-', '_')}"


def _globals(site: Site, kolla: Kolla) -> dict[str, object]:
    interfaces = kolla.interfaces
    variables: dict[str, object] = {
        "kolla_base_distro": kolla.distribution,
        "kolla_container_engine": kolla.engine,
        "docker_registry": kolla.registry,
        "network_interface": interfaces.api,
        "tunnel_interface": interfaces.tunnel or interfaces.api,
        "neutron_external_interface": interfaces.external,
        "kolla_internal_vip_address": str(kolla.internal.address),
        "kolla_internal_fqdn": kolla.internal.name,
        "kolla_external_vip_address": str(kolla.external.address),
        "kolla_external_fqdn": kolla.external.name,
        "kolla_external_vip_interface": interfaces.public or interfaces.api,
        "kolla_enable_tls_internal": True,
        "kolla_enable_tls_external": True,
        "kolla_copy_ca_into_containers": True,
        "openstack_cacert": CA_BUNDLES[kolla.distribution],
        "kolla_admin_openrc_cacert": str(SitePaths(site.name).ca_file),
        "neutron_plugin_agent": "ovn",
        "enable_mariabackup": kolla.database_backup,
        # what a site of Strata does not use
        "enable_heat": False,
        "enable_horizon": False,
        "enable_fluentd": False,
        "enable_cinder": kolla.ceph is not None,
    }
    if kolla.ceph is not None:
        variables |= {f"{service}_backend_ceph": True for service in ("glance", "cinder", "nova")}
        variables["enable_cinder_backup"] = False
    return variables


def _nova(site: Site, cloud: Cloud) -> str:
    """nova.conf of every service; PCI aliases have to be the same on controllers and hypervisors."""
    lines = ["[filter_scheduler]", f"enabled_filters = {','.join(FILTERS)}"]
    lines += [f"pci_in_placement = {str(cards_in_placement(cloud)).lower()}", "", "[pci]"]
    lines += [f"alias = {json.dumps(site.accelerators[kind].alias)}" for kind in kinds(cloud)]
    return "\n".join(lines) + "\n"


def _nova_compute(site: Site, cloud: Cloud) -> str:
    """nova.conf of the hypervisors; Kolla-Ansible renders it for each host, which takes its own groups' cards."""
    lines = ["[pci]", "report_in_placement = true"]
    for kind in kinds(cloud):
        specification = f"device_spec = {json.dumps(site.accelerators[kind].device_spec)}"
        lines += [f"{{% if inventory_hostname in groups['{group(kind)}'] %}}", specification, "{% endif %}"]
    return "\n".join(lines) + "\n"


def _nova_host(host: Hypervisor) -> str:
    """nova.conf of one hypervisor, merged last: a device_spec here replaces those of the kinds."""
    lines = []
    if host.dedicated_cpus:
        shared = ",".join(map(str, host.shared_cpus))
        lines = ["[compute]", f"cpu_dedicated_set = {host.dedicated_cpus}", f"cpu_shared_set = {shared}"]
    if host.pci_passthrough and host.pci_passthrough.addresses:
        # by its kind, a card that stays with the host would match too
        lines += ["[pci]", *(f"device_spec = {json.dumps({'address': a})}" for a in host.pci_passthrough.addresses)]
    return "".join(f"{line}\n" for line in lines)


def _placement() -> str:
    """A host with many cards has many candidates, one for each order of the cards: some of each host are enough."""
    return (
        f"[placement]\nmax_allocation_candidates = {MOST_CANDIDATES}\n"
        "allocation_candidates_generation_strategy = breadth-first\n"
    )


def _ceph(ceph: Ceph) -> str:
    monitors = ",".join(map(str, ceph.monitors))
    return f"[global]\nfsid = {ceph.cluster_id}\nmon_host = {monitors}\n"


def difference(site: Site, deployed: Mapping[str, str]) -> list[str]:
    """Lines in which the files differ from those of the last deployment, for `strata plan`.

    Args:
        site: the model.
        deployed: the files then.
    """
    current, differences = public_files(site), []
    for name in sorted({*current, *deployed}):
        before, after = deployed.get(name, "").splitlines(), current.get(name, "").splitlines()
        # the first two lines are the names of the files
        for line in list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]:
            if not line.startswith("@@"):
                differences.append(f"{name}: {line}")
    return differences
