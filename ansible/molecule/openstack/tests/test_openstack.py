"""What the openstack_* roles promise, asked as a user, as a stranger and on the machine."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests

from strata.access.podman import podman
from strata.inventory.build import controller_address
from strata.progress import Silent
from strata_lab.images import ensure_node_image

if TYPE_CHECKING:
    from openstack.connection import Connection
    from testinfra.host import Host

    from strata.site.context import SiteContext

RECOVERY_SECONDS = 300
"""How long services may take until they stand again after the side effect killed some, in seconds."""

METADATA_PORT = 8775
"""Where nova answers the network agent that asks for an instance."""

PROTECTED = {
    "identity": ":5000/v3/users",
    "placement": ":8778/resource_providers",
    "image": ":9292/v2/images",
    "network": ":9696/v2.0/networks",
    "compute": ":8774/v2.1/servers",
}
"""A page of each API that nobody may read without a token."""

DAEMONS = [
    *("keystone", "placement", "glance", "neutron", "neutron-rpc-server", "nova-api", "nova-conductor"),
    *("nova-scheduler", "nova-compute@compute-1", "nova-compute@compute-gpu-1"),
]
DEBIAN_DAEMONS = ["mariadb", "rabbitmq-server", "memcached"]
ONCE = ["openstack-databases", "openstack-identity"]
"""Units that run where their work has not been done yet."""


@pytest.fixture(scope="session", autouse=True)
def _recovered(controller: Host) -> None:
    """Waits until every unit is active that the roles started; the side effect has killed some of them."""
    end = time.monotonic() + RECOVERY_SECONDS
    while missing := [u for u in (*DEBIAN_DAEMONS, *DAEMONS) if state(controller, u) != "active"]:
        assert time.monotonic() < end, f"not active {RECOVERY_SECONDS} s after the side effect: {', '.join(missing)}"
        time.sleep(1)


def state(controller: Host, unit: str) -> str:
    """systemd's ActiveState."""
    return str(controller.check_output("systemctl show --property=ActiveState --value %s.service", unit))


def test_no_unit_failed(controller: Host) -> None:
    assert controller.check_output("systemctl list-units --failed --no-legend --plain") == ""


def test_everything_starts_at_boot(controller: Host) -> None:
    assert controller.check_output("systemctl is-enabled openstack.target") == "enabled"
    wanted = set(controller.check_output("systemctl show --property=Wants --value openstack.target").split())
    assert {f"{unit}.service" for unit in (*DAEMONS, *ONCE)} <= wanted
    for unit in DEBIAN_DAEMONS:
        assert controller.check_output("systemctl is-enabled %s.service", unit) == "enabled"


def test_killed_services_run_again(controller: Host) -> None:
    """The side effect killed them; what runs now was started after that."""
    killed = int(controller.check_output("stat --format=%Y /run/killed"))
    for unit in ("mariadb", "rabbitmq-server", "keystone", "nova-conductor", "nova-compute@compute-gpu-1"):
        command = "systemctl show --timestamp=unix --property=ExecMainStartTimestamp --value %s.service"
        assert int(controller.check_output(command, unit).lstrip("@")) >= killed, unit


def test_only_ssh_and_the_apis_can_be_reached(controller: Host, context: SiteContext) -> None:
    address = controller_address(context.site)
    sockets = [line.split()[3] for line in controller.check_output("ss -Htln").splitlines()]
    outside = {s for s in sockets if not s.startswith(("127.0.0.1:", "[::1]:"))}
    apis = {f"{address}:{path.partition('/')[0].strip(':')}" for path in PROTECTED.values()}
    assert outside == apis | {f"{address}:{METADATA_PORT}", "0.0.0.0:22", "[::]:22"}


@pytest.mark.parametrize("service", PROTECTED)
def test_api_lists_its_versions(context: SiteContext, service: str) -> None:
    port = PROTECTED[service].split("/")[0]
    answer = requests.get(f"http://{controller_address(context.site)}{port}/", timeout=30)
    assert answer.status_code in (200, 300), answer.text[:200]
    assert answer.json()["versions"]


@pytest.mark.parametrize("headers", [{}, {"X-Auth-Token": "gAAAAAB-unknown"}], ids=["no token", "unknown token"])
@pytest.mark.parametrize("service", PROTECTED)
def test_api_refuses_strangers(context: SiteContext, service: str, headers: dict[str, str]) -> None:
    url = f"http://{controller_address(context.site)}{PROTECTED[service]}"
    assert requests.get(url, headers=headers, timeout=30).status_code == 401


def test_keystone_refuses_a_wrong_password(context: SiteContext) -> None:
    user = {"name": "admin", "domain": {"id": "default"}, "password": "wrong"}
    body = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}}
    answer = requests.post(f"http://{controller_address(context.site)}:5000/v3/auth/tokens", json=body, timeout=30)
    assert answer.status_code == 401


def test_catalogue_has_every_service_once(cloud: Connection, context: SiteContext) -> None:
    address = controller_address(context.site)
    catalogue = {entry["type"]: entry["endpoints"] for entry in cloud.service_catalog}
    assert set(catalogue) == set(PROTECTED)
    for endpoints in catalogue.values():
        assert {e["interface"] for e in endpoints} >= {"public"}
        assert len({e["interface"] for e in endpoints}) == len(endpoints)
        assert all(e["url"].startswith(f"http://{address}:") for e in endpoints)


def test_hypervisors_offer_what_the_site_says(cloud: Connection, context: SiteContext) -> None:
    assert context.site.cloud is not None
    found = {h.name: h for h in cloud.compute.hypervisors(details=True)}
    assert set(found) == {h.name for h in context.site.cloud.hypervisors}
    for expected in context.site.cloud.hypervisors:
        hypervisor = found[expected.name]
        assert (hypervisor.state, hypervisor.status) == ("up", "enabled")
        inventory = cloud.placement.get(f"/resource_providers/{hypervisor.id}/inventories").json()["inventories"]
        assert (inventory["VCPU"]["total"], inventory["MEMORY_MB"]["total"]) == (
            expected.vcpus,
            expected.memory.mebibytes,
        )


@pytest.fixture
def resources(cloud: Connection) -> Iterator[dict[str, Any]]:
    """Network, image and flavor for an instance with a card."""
    made: dict[str, Any] = {}
    try:
        made["network"] = cloud.network.create_network(name="probe")
        cloud.network.create_subnet(network_id=made["network"].id, ip_version=4, cidr="10.190.2.0/24")
        made["image"] = cloud.create_image(
            "probe",
            data=b"the root filesystem is podman's",
            disk_format="raw",
            container_format="bare",
            strata_image=ensure_node_image("12", Silent()),
            wait=True,
        )
        made["flavor"] = cloud.compute.create_flavor(name="probe", vcpus=1, ram=256, disk=1)
        cloud.compute.create_flavor_extra_specs(made["flavor"], {"pci_passthrough:alias": "v100:1"})
        yield made
    finally:
        for server in cloud.compute.servers(all_projects=True):
            cloud.compute.delete_server(server, force=True)
            cloud.compute.wait_for_delete(server, wait=180)
        if "flavor" in made:
            cloud.compute.delete_flavor(made["flavor"])
        if "image" in made:
            cloud.image.delete_image(made["image"])
        if "network" in made:
            cloud.network.delete_network(made["network"])


def test_instance_boots_with_its_card(cloud: Connection, context: SiteContext, resources: dict[str, Any]) -> None:
    """API, scheduler, conductor, message broker, neutron's mechanism driver and nova-compute work together."""
    server = cloud.compute.create_server(
        name="probe",
        flavor_id=resources["flavor"].id,
        image_id=resources["image"].id,
        networks=[{"uuid": resources["network"].id}],
    )
    server = cloud.compute.wait_for_server(server, wait=180)
    assert server.hypervisor_hostname == "compute-gpu-1"
    container = f"strata-{context.site.name}-{server.id}"
    listing = podman("exec", container, "sh", "-c", "cat /etc/strata/pci/devices/*/vendor")
    assert listing.split() == ["0x10de"]
    address = server.addresses["probe"][0]["addr"]
    assert podman("exec", container, "hostname", "-I").split() == [address]
    cloud.compute.delete_server(server)
    cloud.compute.wait_for_delete(server, wait=180)
    assert container not in podman("ps", "--all", "--format", "{{.Names}}").split()


def test_passwords_are_in_private_files_only(controller: Host, context: SiteContext) -> None:
    names = ("openstack_admin_password", "openstack_nova_database_password", "openstack_messaging_password")
    for name in names:
        password = context.secrets.get(name)
        found = controller.run("grep --recursive --files-with-matches --fixed-strings --regexp=%s /etc", password)
        files = found.stdout.split()
        assert files, f"{name} stands nowhere"
        for file in files:
            assert controller.file(file).mode & 0o007 == 0, f"{file} shows {name} to everybody"
        running = controller.check_output("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        assert password not in running, f"{name} stands among a process's arguments"


@pytest.mark.parametrize(
    ("role", "variable", "value", "message"),
    [
        ("openstack_common", "openstack_common_ports", "many", "unable to convert to dict"),
        ("openstack_common", "openstack_common_start_seconds", "soon", "unable to convert to int"),
        ("openstack_database", "openstack_database_users", [{"name": "nova"}], "missing required arguments: password"),
        ("openstack_identity", "openstack_identity_services", [{"name": "nova"}], "missing required arguments"),
        ("openstack_network", "openstack_network_mtu", "wide", "unable to convert to int"),
        ("openstack_compute", "openstack_compute_hypervisors", [{"name": "compute-1"}], "missing required arguments"),
        ("openstack_compute", "openstack_compute_podman_url", "unix:///run/x", "openstack_common earlier in the play"),
    ],
)
def test_role_refuses_a_wrong_value(
    context: SiteContext, role: str, variable: str, value: object, message: str
) -> None:
    """The message names the variable and what is wrong with it; the last case lacks the role before it."""
    done = subprocess.run(
        [
            *(str(Path(sys.executable).parent / "ansible"), "openstack_controller"),
            *("--inventory", str(context.site_file), "--extra-vars", json.dumps({variable: value})),
            *("--module-name", "ansible.builtin.include_role", "--args", f"name={role}"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0, f"{role} took {variable}={value!r}"
    assert message in done.stdout, done.stdout[-1500:]
    assert variable in done.stdout or "earlier in the play" in message
