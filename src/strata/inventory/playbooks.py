"""What the playbooks are told of the roles: which to run in which order, and what each host installs for its own."""

from __future__ import annotations

from strata.roles import Role, roles, roles_of


def playbook_roles() -> dict[str, list[str]]:
    """Variables that list the roles which the playbooks run for the hosts of each group, in order.

    `hosts.yml` names the role base, `cluster.yml` those that make a host a node; roles on top of a node follow.
    """
    hosts = [name for name, role in roles().items() if role.layer == "hosts" and name != "base"]
    nodes = [name for name, role in roles().items() if role.layer == "cluster" and role.needs.on_host]
    return {"strata_host_roles": hosts, "strata_node_roles": nodes}


def host_variables(assigned: tuple[str, ...], *, kubeadm: bool = True) -> dict[str, object]:
    """Packages and restart policies of all roles of a host, for the role base.

    Args:
        assigned: the host's roles in site.yaml.
        kubeadm: whether the playbook of the cluster makes the nodes; another installer brings their packages itself.
    """
    found: list[Role] = [role for name in roles_of(assigned) if (role := roles()[name]).layer == "hosts" or kubeadm]
    return {
        "base_packages": sorted({p for role in found for p in role.packages}),
        "base_container_packages": sorted({p for role in found for p in role.container_packages}),
        "base_kernel_packages": sorted({p for role in found for p in role.kernel_packages}),
        "base_restarted_units": sorted({u.file for role in found for u in role.units if u.restart}),
    }
