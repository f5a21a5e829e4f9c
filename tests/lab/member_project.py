"""A project of the lab's cloud as an operator of another cloud has one: with a member's application credential."""

from __future__ import annotations

import secrets
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from strata.site.context import SiteContext
from strata.site_file.inventories import find_site

from .commands import strata

if TYPE_CHECKING:
    from openstack.connection import Connection

NAME = "campus"


@dataclass(frozen=True)
class Place:
    """The project, and the environment in which campus is deployed there.

    Args:
        project: its id.
        environment: state directory and clouds.yaml of its own.
        state: the site's state directory.
    """

    project: str
    environment: Mapping[str, str]
    state: Path


@contextmanager
def member_project(context: SiteContext, cloud: Connection, directory: Path, instances: int) -> Iterator[Place]:
    """A project with a member; the site in it, both and their objects are removed afterwards.

    Args:
        context: the lab.
        cloud: its cloud, as administrator.
        directory: for state and clouds.yaml.
        instances: the quota.
    """
    if not context.provider.owns_cloud:
        pytest.skip(f"site {context.site.name} is not a lab: its cloud is not ours to make projects in")
    import openstack  # noqa: PLC0415  # loads openstack: 0.2 s

    password = secrets.token_urlsafe(24)
    identity: Any = cloud.identity
    network: Any = cloud.network
    entry = yaml.safe_load(context.paths.clouds_file.read_text())["clouds"][context.provider.cloud_entry]
    project = identity.create_project(name=NAME, domain_id="default")
    user = identity.create_user(
        name=NAME, password=password, default_project_id=project.id, domain_id=project.domain_id
    )
    environment = {"STRATA_STATE_DIR": str(directory), "OS_CLIENT_CONFIG_FILE": str(directory / "clouds.yaml")}
    try:
        identity.assign_project_role_to_user(project, user, identity.find_role("member"))
        cloud.set_compute_quotas(project.id, instances=instances)
        # neutron counts a group that is being created twice for a moment: of the default of 10 too many for 9 at once
        cloud.set_network_quotas(project.id, security_group=20)
        auth = {"auth_url": entry["auth"]["auth_url"]}
        own = {**auth, "username": NAME, "password": password, "project_id": project.id}
        rest = {key: value for key, value in entry.items() if key not in ("auth", "auth_type")}
        with openstack.connection.Connection(**rest, auth={**own, "user_domain_id": project.domain_id}) as member:
            keystone: Any = member.identity
            credential = keystone.create_application_credential(user=user.id, name="strata")
        auth |= {"application_credential_id": credential.id, "application_credential_secret": credential.secret}
        clouds = {"clouds": {NAME: {**rest, "auth_type": "v3applicationcredential", "auth": auth}}}
        Path(environment["OS_CLIENT_CONFIG_FILE"]).write_text(yaml.safe_dump(clouds))
        yield Place(str(project.id), environment, directory / NAME)
    finally:
        if (directory / NAME).exists():
            strata("destroy", NAME, "--yes", environment=environment)
        for group in network.security_groups(project_id=project.id):
            network.delete_security_group(group)
        identity.delete_user(user)
        identity.delete_project(project)


def campus_in_the_lab(context: SiteContext, instances: Container[str] | None = None) -> dict[str, Any]:
    """The content of campus' site file, with the lab's gateway as its deployment host, the lab's image, GPUs without a
    driver, and substitutes, because a test may have no internet.

    Args:
        context: the lab.
        instances: names of those to keep. A control plane that is the only one gets a floating IP, at which it is
            reached. Default: all.
    """
    text = find_site(NAME).read_text()
    content: dict[str, Any] = yaml.safe_load(text.replace("debian-13", "debian-12").replace('"13"', '"12"'))
    cloud = context.site.cloud
    assert cloud is not None
    assert cloud.control_network is not None
    gateway = str(cloud.control_network[1])
    content["access"] |= {key: [f"{gateway}/32"] for key in ("ssh", "kubernetes_api", "registry")}
    content["allow_substitutes"] = True
    content["cluster"]["gpu_nodes"] = {"device_plugin": "built-in"}
    if instances is not None:
        kept = [instance for instance in content["cloud"]["instances"] if instance["name"] in instances]
        content["cloud"]["instances"] = kept
        control_planes = [instance for instance in kept if "kube_control_plane" in instance["roles"]]
        if len(control_planes) == 1:
            control_planes[0]["floating_ip"] = True
    return content
