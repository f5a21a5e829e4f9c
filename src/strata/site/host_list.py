"""The hosts of a site: instances of its cloud, and machines of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

from strata.models.declared_hosts import declared_hosts
from strata.models.site import Site
from strata.roles import Condition, machine_roles, roles, roles_of
from strata.site.installer_facts import installer_of, runs_role, virtual_address
from strata.site.outputs import CloudOutputs

LOAD_BALANCER = "load_balancer"
POSTGRESQL = "postgresql"


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
    """Instances of the cloud, then bare-metal hosts, each in the site's order."""
    instances = outputs.instances.values() if outputs else ()
    listed = [Host(i.name, i.address, tuple(i.roles), i.floating_ip) for i in instances]
    own = machine_roles() if site.hosts.firewall else ()
    listed += [Host(m.name, str(m.address), (*m.roles, *own)) for m in site.hosts.machines]
    return tuple(listed)


def hosts_with(role: str, site: Site, outputs: CloudOutputs | None) -> tuple[Host, ...]:
    """The hosts that have a role."""
    return tuple(host for host in hosts(site, outputs) if role in host.roles)


def running_roles(site: Site, assigned: tuple[str, ...]) -> tuple[str, ...]:
    """The roles of a host in site.yaml, then those that come with them.

    Roles of the cluster come with others only where Strata's playbook runs them.
    """
    met = roles_of(assigned, conditions(site))
    implied = (name for name in met if roles()[name].layer != "cluster" or runs_role(site, name))
    return tuple(dict.fromkeys((*assigned, *implied)))


def address_of(role: str, site: Site, outputs: CloudOutputs | None) -> str | None:
    """Address at which clients reach a role; None where no host has it.

    Several PostgreSQL servers are reached at the load balancer, which knows the primary.
    """
    host = _reached(LOAD_BALANCER if role == POSTGRESQL and replicated_postgresql(site) else role, site, outputs)
    return host.address if host else None


def outside_of(role: str, site: Site, outputs: CloudOutputs | None) -> str | None:
    """Address at which the deployment host and users connect to a role; None where no host has it."""
    host = _reached(role, site, outputs)
    return host.outside if host else None


def _reached(role: str, site: Site, outputs: CloudOutputs | None) -> Host | None:
    """The first host that has a role; as load balancer, with the virtual address if there is one."""
    hosts = hosts_with(role, site, outputs)
    if not hosts:
        return None
    section = site.hosts.load_balancer
    if role != LOAD_BALANCER or section is None:
        return hosts[0]
    floating_ip = outputs.virtual_floating_ip if outputs else None
    return replace(hosts[0], address=str(section.virtual_address), floating_ip=floating_ip)


def balanced_api(site: Site) -> bool:
    """Whether clients reach the API servers through the load balancer: several control planes by Strata's roles."""
    return site.cluster is not None and installer_of(site).by_roles and _count("kube_control_plane", site) > 1


def replicated_postgresql(site: Site) -> bool:
    """Whether Patroni replicates the databases: several hosts have the role postgresql."""
    return _count(POSTGRESQL, site) > 1


def archived_postgresql(site: Site) -> bool:
    """Whether pgBackRest archives the PostgreSQL servers."""
    return site.hosts.backup is not None and site.hosts.backup.postgresql is not None


def conditions(site: Site) -> tuple[Condition, ...]:
    """The conditions of roles and ports that a site meets."""
    met: dict[Condition, bool] = {
        "archived_postgresql": archived_postgresql(site),
        "balanced_api": balanced_api(site),
        "replicated_postgresql": replicated_postgresql(site),
        "virtual_address": site.hosts.load_balancer is not None,
        "volumes": site.cloud is not None and any(instance.volumes for instance in site.cloud.instances),
    }
    return tuple(condition for condition, holds in met.items() if holds)


def _count(role: str, site: Site) -> int:
    """Hosts in site.yaml that have a role."""
    return sum(role in host.roles for host in declared_hosts(site))


def api_host(site: Site, outputs: CloudOutputs | None) -> Host | None:
    """Where clients reach port 6443 of the API server; None before the cloud layer made it."""
    return _reached(LOAD_BALANCER if balanced_api(site) else "kube_control_plane", site, outputs)


def api_address(site: Site, outputs: CloudOutputs | None, *, outside: bool = False) -> str | None:
    """Address of the API server; None before the cloud layer made the control planes.

    Args:
        site: the model.
        outputs: of the cloud layer.
        outside: the one that the deployment host and users connect to, not that of nodes.
    """
    host = api_host(site, outputs)
    if host is None:
        return None
    return virtual_address(site) or (host.outside if outside else host.address)


def ingress_nodes(site: Site, outputs: CloudOutputs | None) -> tuple[Host, ...]:
    """The nodes that run the ingress controller: those without taints."""
    tainted = site.cluster is not None and bool(site.cluster.gpu_nodes.taints)
    return tuple(h for h in hosts_with("kube_node", site, outputs) if not (tainted and "gpu_node" in h.roles))
