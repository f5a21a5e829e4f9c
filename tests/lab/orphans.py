"""Plants what belongs to a site by name and to nobody by record: one thing of each kind compared, but no server."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strata.access.helm import helm
from strata.access.podman import SITE_LABEL, podman
from strata.site.context import SiteContext
from strata.site.outputs import PARTIAL
from strata.stacks.pulumi_state import project_name, state_file
from strata_lab.network.attachments import NETWORK_LABEL
from strata_lab.network.container import container_name

if TYPE_CHECKING:
    from openstack.connection import Connection

NAME = "orphan-test"
CIDR = "198.51.100.0/28"
"""Of RFC 5737, so nobody's."""


@contextmanager
def orphans(
    context: SiteContext, cloud: Connection, kubectl: Callable[..., str], directory: Path
) -> Iterator[set[str]]:
    """Meanwhile they are there; what each is to be called by `strata doctor`.

    Args:
        context: the lab.
        cloud: OpenStack as its administrator.
        kubectl: the plugin's.
        directory: empty, for a chart.
    """
    with ExitStack() as afterwards:
        yield {
            *_of_podman(context, afterwards),
            *_of_openstack(context, cloud, afterwards),
            *_of_the_cluster(context, kubectl, directory, afterwards),
            *_of_the_state(context, afterwards),
        }


def _of_podman(context: SiteContext, afterwards: ExitStack) -> Iterator[str]:
    """A container, a volume and a network of an instance and a network that OpenStack has not."""
    unknown = str(uuid.uuid4())
    name, label = f"strata-{context.site.name}-{unknown}", f"{SITE_LABEL}={context.site.name}"
    image = podman("container", "inspect", "--format", "{{.Image}}", container_name(context.site.name)).strip()
    afterwards.callback(podman, "rm", "--force", "--ignore", name)
    podman("create", "--name", name, "--label", label, "--network", "none", image, "true")
    yield f"container {name}"
    podman("volume", "create", "--label", label, name)
    afterwards.callback(podman, "volume", "rm", name)
    yield f"volume {name}"
    podman("network", "create", "--label", label, "--label", f"{NETWORK_LABEL}={unknown}", "--subnet", CIDR, name)
    afterwards.callback(podman, "network", "rm", name)
    yield f"network {name}"


def _of_openstack(context: SiteContext, cloud: Connection, afterwards: ExitStack) -> Iterator[str]:
    """Objects of the site's project that Pulumi did not make, and an allocation of no instance."""
    assert context.site.cloud is not None
    identity: Any = cloud.identity  # version 3; its types allow for version 2
    project = identity.find_project(context.site.cloud.project.name, ignore_missing=False).id
    neutron: Any = cloud.network

    def made(kind: str, **properties: Any) -> Any:
        created = getattr(neutron, f"create_{kind}")(name=NAME, project_id=project, **properties)
        afterwards.callback(getattr(neutron, f"delete_{kind}"), created.id)
        return created

    network = made("network")
    made("subnet", network_id=network.id, cidr=CIDR, ip_version=4)
    made("port", network_id=network.id)
    made("router")
    made("security_group")
    yield from (f"{kind} {NAME}" for kind in ("network", "subnet", "port", "router", "security group"))
    external = neutron.find_network(context.site.cloud.external_network, ignore_missing=False)
    address = neutron.create_ip(floating_network_id=external.id, project_id=project)
    afterwards.callback(neutron.delete_ip, address.id)
    yield f"floating ip {address.floating_ip_address}"

    consumer, provider = str(uuid.uuid4()), next(iter(cloud.placement.resource_providers()))
    body = {
        "allocations": {provider.id: {"resources": {"VCPU": 1}}},
        **{"project_id": project, "user_id": cloud.current_user_id, "consumer_generation": None},
    }
    answer = cloud.placement.put(f"/allocations/{consumer}", json=body, microversion="1.28")
    assert answer.status_code == 204, answer.text
    afterwards.callback(cloud.placement.delete, f"/allocations/{consumer}")
    yield f"resources of {provider.name} for {consumer}"


def _of_the_cluster(
    context: SiteContext, kubectl: Callable[..., str], directory: Path, afterwards: ExitStack
) -> Iterator[str]:
    """A node without a host, and a release that Pulumi did not make."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME}, "spec": {"unschedulable": True}}
    kubectl("create", "-f", "-", input=json.dumps(node))  # without the labels that daemon sets select by
    afterwards.callback(kubectl, "delete", "node", NAME)
    yield f"node {NAME}"
    (directory / "Chart.yaml").write_text(f"apiVersion: v2\nname: {NAME}\nversion: 0.0.1\n")
    helm(context, "install", NAME, str(directory), "--namespace", "default")
    afterwards.callback(helm, context, "uninstall", NAME, "--namespace", "default")
    yield f"release {NAME} in default"


def _of_the_state(context: SiteContext, afterwards: ExitStack) -> Iterator[str]:
    """A file that is partially written; in Pulumi's state an operation without an end and an unfinished deletion."""
    partial = context.paths.root / f".{NAME}{PARTIAL}"
    afterwards.callback(partial.unlink)
    partial.touch(mode=0o600)
    yield str(partial)
    file = state_file(context.paths.pulumi, project_name("cloud"), context.site.name)
    text = file.read_text()
    state = json.loads(text)
    latest = state["checkpoint"]["latest"]
    urns = [f"urn:pulumi:{context.site.name}::{project_name('cloud')}::{NAME}::{NAME}-{n}" for n in (1, 2)]
    latest["pending_operations"] = [{"type": "creating", "resource": {"urn": urns[0], "type": NAME}}]
    latest["resources"].append({"urn": urns[1], "type": NAME, "delete": True})
    afterwards.callback(file.write_text, text)
    file.write_text(json.dumps(state))
    yield f"creating {NAME}-1"
    yield f"{NAME}-2"
