"""campus comes up in the lab's OpenStack as in a cloud that others run: a second project, a member's application
credential, existing flavors, image and external network; then it goes and leaves nothing."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import yaml

from strata.site.context import SiteContext

from .commands import strata, up
from .member_project import NAME, Place, campus_in_the_lab, member_project

if TYPE_CHECKING:
    from openstack.connection import Connection

pytestmark = pytest.mark.nightly

INSTANCES = 7
"""Quota and number of instances: one that needs more would not come up."""
SMALL = frozenset({"edge-1", "storage-1", "control-1", "worker-1"})
"""Instances of the smaller site that every run of the tests brings up: one host of each kind but GPU nodes."""


@pytest.fixture(scope="module")
def place(context: SiteContext, cloud: Connection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A project with a member; both are removed afterwards."""
    with member_project(context, cloud, tmp_path_factory.mktemp(NAME), INSTANCES) as project:
        yield project


@pytest.fixture
def instances() -> frozenset[str] | None:
    """Those of campus that the site keeps: all, unless a test states others."""
    return None


@pytest.fixture
def site_file(context: SiteContext, tmp_path: Path, instances: frozenset[str] | None) -> Path:
    """campus as the lab can have it, with a page."""
    content = campus_in_the_lab(context, instances)
    content["platform"]["services"] = {"portal": {"contact": f"operators@{content['domain']}"}}
    if instances is not None:
        for tenant in content["platform"]["tenants"]:
            del tenant["quota"]["accelerators"]
    file = tmp_path / NAME / "site.yaml"
    file.parent.mkdir()
    file.write_text(yaml.safe_dump(content))
    return file


@pytest.mark.parametrize("instances", [SMALL, None], ids=["one control plane", "three control planes"])
def test_plan_up_again_and_destroy(
    place: Place, cloud: Connection, site_file: Path, instances: frozenset[str] | None
) -> None:
    """Every layer comes up with nothing but a member's credentials, through a bastion; the quota is given back."""
    network: Any = cloud.network
    planned = strata("plan", site_file, "--layer", "cloud", environment=place.environment)
    assert planned.returncode == 0, planned.stderr
    assert "create instance worker-1" in planned.stdout, planned.stdout[-3000:]
    first = up(site_file, environment=place.environment)
    expected = INSTANCES if instances is None else len(instances)
    assert first["changed"] > expected
    servers = [s for s in cloud.compute.servers(all_projects=True) if s.project_id == place.project]
    assert {s.status for s in servers} == {"ACTIVE"}
    assert len(servers) == expected
    addresses = {ip.floating_ip_address for ip in network.ips(project_id=place.project)}
    # the load balancer's, also for the API of several control planes
    assert len(addresses) == (1 if instances is None else 2)
    kubeconfig = yaml.safe_load((place.state / "kubeconfig").read_text())
    assert urlsplit(kubeconfig["clusters"][0]["cluster"]["server"]).hostname in addresses
    verified = strata("verify", site_file, environment=place.environment)
    assert verified.returncode == 0, verified.stdout[-5000:]
    assert up(site_file, "--thorough", environment=place.environment)["changed"] == 0
    gone = strata("destroy", site_file, "--yes", environment=place.environment)
    assert gone.returncode == 0, gone.stderr
    assert "killed run" not in gone.stdout + gone.stderr
    assert [s for s in cloud.compute.servers(all_projects=True) if s.project_id == place.project] == []
    for kind in ("networks", "routers", "ips", "ports"):
        assert list(getattr(network, kind)(project_id=place.project)) == [], kind


def test_a_lost_state_is_adopted_and_up_changes_nothing(place: Place, cloud: Connection, site_file: Path) -> None:
    """The real services answer what the provider imports; instances keep their ports, and none is replaced."""
    environment = place.environment
    up(site_file, "--layer", "cloud", environment=environment)
    ids = _ids(place, cloud)
    for lost in ("pulumi", "outputs"):
        shutil.rmtree(place.state / lost)
    refused = strata("up", site_file, "--layer", "cloud", environment=environment)
    assert refused.returncode != 0
    assert f"`strata adopt {NAME}` imports them" in refused.stderr, refused.stderr

    begin = time.monotonic()
    adopted = strata("adopt", site_file, "--yes", "--json", environment=environment)
    print(f"adopt: {time.monotonic() - begin:.0f} s")
    assert adopted.returncode == 0, adopted.stderr
    report = json.loads(adopted.stdout)
    assert report["adopted"]
    assert report["missing"] == []
    assert {row["key"]: row["differs"] for row in report["objects"] if row["differs"]} == {}
    assert ids <= {row["id"] for row in report["objects"]}
    again = strata("adopt", site_file, "--yes", environment=environment)
    assert again.returncode == 0, again.stderr
    assert "nothing to adopt" in again.stdout
    assert up(site_file, "--layer", "cloud", environment=environment)["changed"] == 0
    assert _ids(place, cloud) == ids
    gone = strata("destroy", site_file, "--yes", environment=environment)
    assert gone.returncode == 0, gone.stderr
    assert _ids(place, cloud) == set()


def _ids(place: Place, cloud: Connection) -> set[str]:
    """Servers, and what neutron has of the project's own."""
    network: Any = cloud.network
    servers = {str(s.id) for s in cloud.compute.servers(all_projects=True) if s.project_id == place.project}
    for kind in ("networks", "subnets", "routers", "ips"):
        servers |= {str(item.id) for item in getattr(network, kind)(project_id=place.project)}
    return servers | {
        str(p.id) for p in network.ports(project_id=place.project) if p.device_owner.startswith("compute:")
    }
