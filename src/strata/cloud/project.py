"""The site's OpenStack project with its quota, and a provider that works inside it."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_openstack as openstack


@dataclass(frozen=True)
class ProjectQuota:
    """What a project may use.

    Args:
        instances: most instances at a time.
        cores: most virtual CPUs.
        memory_mib: most memory in MiB.
        ports: most network ports.
        security_groups: most security groups; neutron's default of 10 is less than a site has roles.
        security_group_rules: most rules of all groups.
    """

    instances: int
    cores: int
    memory_mib: int
    ports: int
    security_groups: int = 50
    security_group_rules: int = 1000


@dataclass(frozen=True)
class ProjectArgs:
    """One project.

    Args:
        name: of the project, unique in its domain.
        site: whose it is; part of the description.
        cloud_entry: entry of clouds.yaml that is scoped to it.
        quota: what it may use.
    """

    name: str
    site: str
    cloud_entry: str
    quota: ProjectQuota


class Project(pulumi.ComponentResource):
    """Project, quotas and the administrator's role in it.

    `provider` is scoped to the project: what is created with it belongs to the project.
    """

    id: pulumi.Output[str]
    provider: openstack.Provider

    def __init__(self, name: str, args: ProjectArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("strata:cloud:Project", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        invoke = pulumi.InvokeOutputOptions(parent=self)
        project = openstack.identity.Project(name, name=args.name, description=f"Strata site {args.site}", opts=child)
        compute = openstack.compute.QuotaSetV2(
            name,
            project_id=project.id,
            instances=args.quota.instances,
            cores=args.quota.cores,
            ram=args.quota.memory_mib,
            opts=child,
        )
        network = openstack.networking.QuotaV2(
            name,
            project_id=project.id,
            port=args.quota.ports,
            security_group=args.quota.security_groups,
            security_group_rule=args.quota.security_group_rules,
            opts=child,
        )
        scope = openstack.identity.get_auth_scope_output(name=name, opts=invoke)
        role = openstack.identity.get_role_output(name="admin", opts=invoke)
        assignment = openstack.identity.RoleAssignment(
            name, project_id=project.id, user_id=scope.user_id, role_id=role.id, opts=child
        )
        self.id = project.id
        # depends on the role, so that the project is entered after it is given and left before it is taken
        self.provider = openstack.Provider(
            f"{name}-scope",
            cloud=args.cloud_entry,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[assignment, compute, network]),
        )
        self.register_outputs({"id": self.id})
