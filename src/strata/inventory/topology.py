"""Who is where: addresses of hosts, roles and services, as the role variables need them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from strata.catalogue.needs import Database
from strata.catalogue.published import published
from strata.inventory import Template
from strata.models.site import Site
from strata.roles import roles as all_roles
from strata.site.host_list import LOAD_BALANCER, address_of, hosts, outside_of
from strata.site.outputs import CloudOutputs


def host_networks(site: Site) -> list[str]:
    """Networks (CIDR) of the site's hosts: those of the cloud's project, each machine, and the virtual address."""
    networks = [str(n.cidr) for n in site.cloud.networks] if site.cloud else []
    known = [ipaddress.ip_network(n) for n in networks]
    shared = [site.hosts.load_balancer.virtual_address] if site.hosts.load_balancer else []
    for address in (*(machine.address for machine in site.hosts.machines), *shared):
        if not any(address in n for n in known if n.version == address.version):
            networks.append(f"{address}/{address.max_prefixlen}")
    return networks


def host_networks_with(roles: Iterable[str], site: Site, outputs: CloudOutputs | None) -> list[str]:
    """Networks (CIDR) of one address each: the hosts that have one of the roles."""
    role_set = set(roles)
    networks = (ipaddress.ip_network(h.address) for h in hosts(site, outputs) if role_set & set(h.roles))
    return list(dict.fromkeys(map(str, networks)))


def service_names(site: Site, outputs: CloudOutputs | None) -> list[dict[str, str]]:
    """`name`, fully qualified, and `address` of each service that runs on hosts or behind the load balancer.

    Args:
        site: the model.
        outputs: addresses of the instances; None before the cloud layer ran.
    """
    names = [
        {"name": f"{name}.{site.domain}", "address": address}
        for role, facts in all_roles().items()
        if (address := address_of(role, site, outputs)) is not None
        for name in facts.dns_names
    ]
    load_balancer = address_of("load_balancer", site, outputs)
    if load_balancer is not None:
        # services may share one
        hosts = dict.fromkeys(service.host for service in published(site))
        names += [{"name": host, "address": load_balancer} for host in hosts]
    return names


def database_secret(database: str) -> str:
    """Name of the secret that holds the password of a database's owner."""
    return Database(database).secret


def secret(name: str) -> Template:
    """A secret of the site, as a role variable."""
    return Template(f"{{{{ lookup('strata_secret', {name!r}) }}}}")


def certificate(name: str, dns_names: list[str], ip_addresses: list[str]) -> Template:
    """A certificate of the site's authority, as a role variable: {certificate, private_key, ca}, PEM."""
    return Template(
        f"{{{{ lookup('strata_certificate', {name!r}, dns_names={dns_names!r}, ip_addresses={ip_addresses!r}) }}}}"
    )


def service_certificate(service: str, role: str, site: Site, outputs: CloudOutputs | None, *more: str) -> Template:
    """Certificate for `<service>.<domain>` and for the names and addresses of every host that has one of the roles."""
    servers = [host for host in hosts(site, outputs) if not {role, *more}.isdisjoint(host.roles)]
    names = [
        f"{service}.{site.domain}",
        *(f"{h.name}.{site.domain}" for h in servers),
        *(h.name for h in servers),
        "localhost",
    ]
    addresses = [address for host in servers for address in (host.address, host.outside)]
    if LOAD_BALANCER in more:
        shared = (address_of(LOAD_BALANCER, site, outputs), outside_of(LOAD_BALANCER, site, outputs))
        addresses += [address for address in shared if address is not None]
    return certificate(service, names, [*dict.fromkeys(addresses), "127.0.0.1"])
