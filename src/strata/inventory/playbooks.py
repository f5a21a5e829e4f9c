"""What the playbooks get to know of the roles: which to run in which order, and what each host installs for its own."""

from __future__ import annotations

from strata.roles import Role, kernel_names, roles, units_of


def playbook_roles() -> dict[str, list[str]]:
    """Variables that list the roles which the playbooks run for the hosts of each group, in order.

    `hosts.yml` names the roles volumes and base, `cluster.yml` those that make a host a node; roles on top of a node
    follow.
    """
    first = ("volumes", "base")
    hosts = [name for name, role in roles().items() if role.layer == "hosts" and name not in first]
    nodes = [name for name, role in roles().items() if role.layer == "cluster" and role.needs.on_host]
    return {"strata_host_roles": hosts, "strata_node_roles": nodes}


def host_variables(running: tuple[str, ...]) -> dict[str, object]:
    """Packages and restart policies of all roles of a host, for the role base; their units, for the node exporter.

    Args:
        running: the host's roles that Strata's playbooks run.
    """
    host_roles: list[Role] = [roles()[name] for name in running]
    return {
        "base_packages": sorted({p for role in host_roles for p in role.packages}),
        "base_container_packages": sorted({p for role in host_roles for p in role.container_packages}),
        "base_kernel_packages": sorted({p for role in host_roles for p in role.kernel_packages}),
        "base_restarted_units": sorted({u.file for role in host_roles for u in role.units if u.restart}),
        "node_exporter_units": {unit: kernel_names(running).get(unit, unit) for unit in units_of(running)},
    }
