"""What the roles promise beyond verify's checks, on the lab: to strangers, at boot, and given wrong values."""

from __future__ import annotations

import base64
import datetime
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import requests

from strata.site.context import SiteContext
from strata.site.host_list import hosts_with
from strata.site.paths import REPOSITORY
from strata.verify.pods import Kubectl
from strata_lab.openstack_controller import controller_address

from .healing import in_controller

if TYPE_CHECKING:
    from openstack.connection import Connection
    from testinfra.host import Host

METADATA_PORT = 8775
"""Where nova answers the network agent that asks for an instance."""

PROTECTED = {
    "identity": ":5000/v3/users",
    "placement": ":8778/resource_providers",
    "image": ":9292/v2/images",
    "network": ":9696/v2.0/networks",
    "compute": ":8774/v2.1/servers",
}
"""A page of each API that requires a token."""

DAEMONS = (
    *("keystone", "placement", "glance", "neutron", "neutron-rpc-server", "nova-api", "nova-conductor"),
    *("nova-scheduler", "openstack-databases", "openstack-identity"),
)
DEBIAN_DAEMONS = ("mariadb", "rabbitmq-server", "memcached")


@pytest.fixture(scope="module")
def controller(context: SiteContext) -> Callable[..., str]:
    """`controller("systemctl", …)` → the output of a command inside the controller; skips on sites without one."""
    if context.site.cloud is None or context.site.cloud.control_network is None:
        pytest.skip(f"site {context.site.name} has no OpenStack controller of its own")
    return lambda *command: in_controller(context, *command).strip()


def test_no_unit_of_the_controller_failed(controller: Callable[..., str]) -> None:
    assert controller("systemctl", "list-units", "--failed", "--no-legend", "--plain") == ""


def test_everything_starts_at_boot(controller: Callable[..., str], context: SiteContext) -> None:
    assert controller("systemctl", "is-enabled", "openstack.target") == "enabled"
    units = set(controller("systemctl", "show", "--property=Wants", "--value", "openstack.target").split())
    assert context.site.cloud is not None
    computes = {f"nova-compute@{hypervisor.name}.service" for hypervisor in context.site.cloud.hypervisors}
    assert {f"{unit}.service" for unit in DAEMONS} | computes <= units
    for unit in DEBIAN_DAEMONS:
        assert controller("systemctl", "is-enabled", f"{unit}.service") == "enabled"


def test_only_ssh_and_the_apis_listen_outside(controller: Callable[..., str], context: SiteContext) -> None:
    address = controller_address(context.site)
    sockets = [line.split()[3] for line in controller("ss", "-Htln").splitlines()]
    outside = {s for s in sockets if not s.startswith(("127.0.0.1:", "[::1]:"))}
    apis = {f"{address}:{path.partition('/')[0].strip(':')}" for path in PROTECTED.values()}
    assert outside == apis | {f"{address}:{METADATA_PORT}", "0.0.0.0:22", "[::]:22"}


@pytest.mark.parametrize("headers", [{}, {"X-Auth-Token": "gAAAAAB-unknown"}], ids=["no token", "unknown token"])
@pytest.mark.parametrize("service", PROTECTED)
@pytest.mark.usefixtures("controller")
def test_openstack_refuses_strangers(context: SiteContext, service: str, headers: dict[str, str]) -> None:
    url = f"http://{controller_address(context.site)}{PROTECTED[service]}"
    assert requests.get(url, headers=headers, timeout=30).status_code == 401


@pytest.mark.usefixtures("controller")
def test_keystone_refuses_a_wrong_password(context: SiteContext) -> None:
    user = {"name": "admin", "domain": {"id": "default"}, "password": "wrong"}
    body = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}}
    answer = requests.post(f"http://{controller_address(context.site)}:5000/v3/auth/tokens", json=body, timeout=30)
    assert answer.status_code == 401


@pytest.mark.usefixtures("controller")
def test_catalogue_has_every_service_once(cloud: Connection, context: SiteContext) -> None:
    address = controller_address(context.site)
    catalogue = {entry["type"]: entry["endpoints"] for entry in cloud.service_catalog}
    assert set(catalogue) == set(PROTECTED)
    for endpoints in catalogue.values():
        assert {e["interface"] for e in endpoints} >= {"public"}
        assert len({e["interface"] for e in endpoints}) == len(endpoints)
        assert all(e["url"].startswith(f"http://{address}:") for e in endpoints)


@pytest.mark.parametrize(("port", "path"), [(6443, "/api/v1/nodes"), (10250, "/pods")], ids=["API server", "kubelet"])
def test_kubernetes_refuses_strangers(
    site_host: Callable[[str], Host], context: SiteContext, port: int, path: str
) -> None:
    """From the control plane itself, without a certificate or with a token that was never issued."""
    host = hosts_with("kube_control_plane", context.site, context.cloud_outputs)[0]
    for option in ("", "--header 'Authorization: Bearer unknown'"):
        command = f"curl --silent --insecure --output /dev/null --write-out '%{{http_code}}' {option}"
        answer = site_host(host.name).check_output(f"{command} https://{host.address}:{port}{path}")
        assert answer in ("401", "403")


def test_bootstrap_tokens_expire_soon(kubectl: Kubectl) -> None:
    listing = kubectl(
        *("--namespace", "kube-system", "get", "secrets", "--output", "json"),
        *("--field-selector", "type=bootstrap.kubernetes.io/token"),
    )
    for secret in json.loads(listing)["items"]:
        text = base64.b64decode(secret["data"]["expiration"]).decode()
        left = datetime.datetime.fromisoformat(text) - datetime.datetime.now(datetime.UTC)
        assert left <= datetime.timedelta(minutes=10)


OPENSTACK, WORKER, CONTROL = "openstack_controller", "gpu_node", "kube_control_plane"


OTHER_VALUES = pytest.mark.nightly
"""An error of a kind that another case has too."""


@pytest.mark.parametrize(
    ("role", "group", "variables", "message"),
    [
        ("openstack_common", OPENSTACK, {"openstack_common_ports": "many"}, "unable to convert to dict"),
        pytest.param(
            *("openstack_common", OPENSTACK, {"openstack_common_start_seconds": "soon"}, "unable to convert to int"),
            marks=OTHER_VALUES,
        ),
        (
            *("openstack_database", OPENSTACK),
            *({"openstack_database_users": [{"name": "nova"}]}, "missing required arguments: password"),
        ),
        pytest.param(
            *("openstack_identity", OPENSTACK),
            *({"openstack_identity_services": [{"name": "nova"}]}, "missing required arguments"),
            marks=OTHER_VALUES,
        ),
        ("openstack_network", OPENSTACK, {"openstack_network_mtu": "wide"}, "unable to convert to int"),
        pytest.param(
            *("openstack_compute", OPENSTACK),
            *({"openstack_compute_hypervisors": [{"name": "compute-1"}]}, "missing required arguments"),
            marks=OTHER_VALUES,
        ),
        (
            *("openstack_compute", OPENSTACK),
            *({"openstack_compute_podman_url": "unix:///run/x"}, "'openstack_common_transport_url' is undefined"),
        ),
        pytest.param(
            *("kubernetes_common", WORKER, {"kubernetes_common_registry": "none"}, "unable to convert to dict"),
            marks=OTHER_VALUES,
        ),
        ("kubernetes_common", WORKER, {"kubernetes_common_binaries": {}}, "must name kubelet and kubeadm"),
        (
            *("kube_control_plane", CONTROL),
            {"kube_control_plane_datastore": {"endpoints": ["http://192.0.2.1:2379"]}},
            "all must begin with https://",
        ),
        pytest.param(
            *("kube_node", WORKER, {"kube_node_labels": "gpu"}, "unable to convert to dict"), marks=OTHER_VALUES
        ),
        ("kube_node", WORKER, {"kube_node_taints": ["gpu:Never"]}, "kube_node_taints has gpu:Never; write key=value"),
        ("gpu_node", CONTROL, {"gpu_node_vendors": ["10de"]}, "has the role gpu_node, but no PCI device of the"),
        ("pod_network", WORKER, {"pod_network_cidr": "10.244.0.0"}, "pod_network_cidr is 10.244.0.0; write the"),
    ],
)
def test_role_refuses_a_wrong_value(
    context: SiteContext, role: str, group: str, variables: dict[str, object], message: str
) -> None:
    """The message names the variable and the error; `--check`, so that a role that accepts it changes nothing."""
    done = subprocess.run(
        [
            *(str(Path(sys.executable).parent / "ansible"), f"{group}[0]", "--check"),
            *("--inventory", str(context.site_file), "--extra-vars", json.dumps(variables)),
            *("--module-name", "ansible.builtin.include_role", "--args", f"name={role}"),
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0, f"{role} took {variables}"
    # long messages are folded
    assert message in " ".join(done.stdout.split()), done.stdout[-1500:]
