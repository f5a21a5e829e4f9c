"""What `up` does in an existing cloud, against the policies of the real services: an ordinary member may."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from strata.stacks.pending import CLOUD_WIDE, IN_PROJECT

HERE = Path(__file__).parent
Policies = Sequence[tuple[str, ...]]
CREATED: Mapping[str, Policies] = {
    "openstack:compute/instance:Instance": [
        ("nova", "os_compute_api:servers:create"),
        ("nova", "os_compute_api:servers:create:attach_network"),
        ("nova", "os_compute_api:servers:delete"),
    ],
    "openstack:compute/keypair:Keypair": [("nova", "os_compute_api:os-keypairs:create")],
    "openstack:compute/serverGroup:ServerGroup": [
        ("nova", "os_compute_api:os-server-groups:create"),
        ("nova", "os_compute_api:os-server-groups:index"),
        ("nova", "os_compute_api:os-server-groups:delete"),
    ],
    "openstack:networking/port:Port": [
        ("neutron", "create_port"),
        ("neutron", "create_port:fixed_ips"),
        ("neutron", "create_port:allowed_address_pairs"),
        ("neutron", "delete_port"),
    ],
    "openstack:networking/subnet:Subnet": [("neutron", "create_subnet"), ("neutron", "delete_subnet")],
    "openstack:networking/network:Network": [("neutron", "create_network"), ("neutron", "delete_network")],
    "openstack:networking/router:Router": [
        ("neutron", "create_router"),
        ("neutron", "create_router:external_gateway_info"),
        ("neutron", "create_router:external_gateway_info:network_id"),
        ("neutron", "delete_router"),
    ],
    "openstack:networking/routerInterface:RouterInterface": [
        ("neutron", "add_router_interface"),
        ("neutron", "remove_router_interface"),
    ],
    "openstack:networking/floatingIp:FloatingIp": [("neutron", "create_floatingip"), ("neutron", "delete_floatingip")],
    "openstack:networking/secGroup:SecGroup": [
        ("neutron", "create_security_group"),
        ("neutron", "delete_security_group"),
    ],
    "openstack:networking/secGroupRule:SecGroupRule": [
        ("neutron", "create_security_group_rule"),
        ("neutron", "delete_security_group_rule"),
    ],
    # cinder is not among the packages here; by its documentation, volume:create and volume:delete are a member's
    "openstack:blockstorage/volume:Volume": [],
    "openstack:compute/volumeAttach:VolumeAttach": [
        ("nova", "os_compute_api:os-volumes-attachments:create"),
        ("nova", "os_compute_api:os-volumes-attachments:delete"),
    ],
}
"""Type of resource to the policies that its creation and removal meet."""
READ: Policies = [
    ("nova", "os_compute_api:os-flavor-extra-specs:index"),
    ("nova", "os_compute_api:limits"),
    ("nova", "os_compute_api:os-console-output"),
    ("nova", "os_compute_api:servers:detail"),
    ("nova", "os_compute_api:os-availability-zone:list"),
    ("nova", "os_compute_api:os-simple-tenant-usage:show"),
    ("glance", "get_images"),
    ("glance", "get_image"),
    ("neutron", "get_network"),
    ("neutron", "get_subnet"),
    ("nova", "os_compute_api:os-keypairs:index"),
    ("nova", "os_compute_api:os-attach-interfaces:list"),
    ("neutron", "get_router"),
    ("neutron", "get_port"),
    ("neutron", "get_floatingip"),
    ("neutron", "get_security_group"),
    ("neutron", "get_security_group_rule"),
]
"""What the checks before `up`, `adopt`, host keys, `status` and accounting read.

neutron shows a project its own quota without a policy.
"""
REFUSED: Policies = [
    ("nova", "os_compute_api:os-flavor-manage:create"),
    ("nova", "os_compute_api:os-aggregates:create"),
    ("nova", "os_compute_api:os-quota-sets:update"),
    ("nova", "os_compute_api:servers:detail:get_all_tenants"),
    ("nova", "os_compute_api:os-simple-tenant-usage:list"),
    ("neutron", "create_network:router:external"),
    ("glance", "publicize_image"),
]
"""What only an administrator does."""


def answers(python: Path, questions: Policies) -> dict[tuple[str, ...], bool]:
    """Whether a member may, by policy."""
    text = json.dumps(list(questions))
    done = subprocess.run(
        [str(python), str(HERE / "policy_cases.py")], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(questions, json.loads(done.stdout), strict=True))


def test_every_type_in_the_project_has_its_policies() -> None:
    assert CREATED.keys() == IN_PROJECT.keys()
    assert not CREATED.keys() & CLOUD_WIDE.keys()


def test_a_member_may_create_and_read_what_a_site_needs_and_no_more(openstack_python: Path) -> None:
    allowed = [*(policy for policies in CREATED.values() for policy in policies), *READ]
    permitted = answers(openstack_python, [*allowed, *REFUSED])
    assert [policy for policy in allowed if not permitted[policy]] == []
    assert [policy for policy in REFUSED if permitted[policy]] == []


def test_in_a_network_of_another_project_a_port_has_one_address(openstack_python: Path) -> None:
    """Which is why `up` asks before it creates anything (strata.engine.existing_cloud.objects)."""
    pairs, port = (("neutron", name, "shared") for name in ("create_port:allowed_address_pairs", "create_port"))
    assert answers(openstack_python, [pairs, port]) == {pairs: False, port: True}
