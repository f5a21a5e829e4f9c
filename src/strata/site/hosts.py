"""The hosts of a site: instances of its cloud, and machines of its own."""

from __future__ import annotations

from dataclasses import dataclass

from strata.models import Site
from strata.roles import machine_roles, roles, roles_of
from strata.site.outputs import CloudOutputs


@dataclass(frozen=True)
class Host:
    """One host of the site.

    Args:
        name: without the domain.
        address: IPv4 or IPv6.
        roles: its Ansible groups.
        floating_ip: where it is reachable from outside the cloud, if it is.
    """

    name: str
    address: str
    roles: tuple[str, ...]
    floating_ip: str | None = None

    @property
    def outside(self) -> str:
        """Address at which the deployment host and users connect: the floating IP where there is one."""
        return self.floating_ip or self.address


def hosts(site: Site, outputs: CloudOutputs | None) -> tuple[Host, ...]:
    """Instances of the cloud, then machines of their own, each in the site's order."""
    instances = outputs.instances.values() if outputs else ()
    found = [Host(i.name, i.address, tuple(i.roles), i.floating_ip) for i in instances]
    own = machine_roles() if site.hosts.firewall else ()
    found += [Host(m.name, str(m.address), (*m.roles, *own)) for m in site.hosts.machines]
    return tuple(found)


def hosts_with(role: str, site: Site, outputs: CloudOutputs | None) -> tuple[Host, ...]:
    """The hosts that have a role."""
    return tuple(host for host in hosts(site, outputs) if role in host.roles)


def running_roles(site: Site, assigned: tuple[str, ...]) -> tuple[str, ...]:
    """The roles of a host in site.yaml, then those that come with them.

    Roles of the cluster come with others only where Strata's playbook installs it.
    """
    installed = site.cluster is not None and site.cluster.installer == "kubeadm"
    implied = (name for name in roles_of(assigned) if installed or roles()[name].layer != "cluster")
    return tuple(dict.fromkeys((*assigned, *implied)))


def address_of(role: str, site: Site, outputs: CloudOutputs | None) -> str | None:
    """Address of the first host that has a role; None where there is none."""
    found = hosts_with(role, site, outputs)
    return found[0].address if found else None


def outside_of(role: str, site: Site, outputs: CloudOutputs | None) -> str | None:
    """Address at which the deployment host and users connect to the first host that has a role; None without one."""
    found = hosts_with(role, site, outputs)
    return found[0].outside if found else None


def balanced_api(site: Site) -> bool:
    """Whether clients reach the API servers through the load balancer: several control planes by kubeadm."""
    if site.cluster is None or site.cluster.installer != "kubeadm":
        return False
    roles_of_hosts = [instance.roles for instance in site.cloud.instances] if site.cloud else []
    roles_of_hosts += [machine.roles for machine in site.hosts.machines]
    return sum("kube_control_plane" in assigned for assigned in roles_of_hosts) > 1


def api_host(site: Site, outputs: CloudOutputs | None) -> Host | None:
    """The host at whose port 6443 clients reach the API server; None before the cloud layer made it."""
    found = hosts_with("load_balancer" if balanced_api(site) else "kube_control_plane", site, outputs)
    return found[0] if found else None


def ingress_nodes(site: Site, outputs: CloudOutputs | None) -> tuple[Host, ...]:
    """The nodes that run the ingress controller: those without taints."""
    tainted = site.cluster is not None and bool(site.cluster.gpu_nodes.taints)
    return tuple(h for h in hosts_with("kube_node", site, outputs) if not (tainted and "gpu_node" in h.roles))
