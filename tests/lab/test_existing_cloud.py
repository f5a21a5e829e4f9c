"""campus comes up in the lab's OpenStack as in a cloud that others run: a second project, a member's application
credential, existing flavors, image and external network; then it goes and leaves nothing."""

from __future__ import annotations

import json
import shutil
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

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("existing-cloud")]
INSTANCES = 7
"""Quota and number of instances: one that needs more would not come up."""


@pytest.fixture(scope="module")
def place(context: SiteContext, cloud: Connection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A project with a member; both are removed afterwards."""
    with member_project(context, cloud, tmp_path_factory.mktemp(NAME), INSTANCES) as found:
        yield found


@pytest.fixture
def site_file(context: SiteContext, tmp_path: Path) -> Path:
    """campus as the lab can have it, with a page."""
    content = campus_in_the_lab(context)
    content["platform"]["services"] = {"portal": {"contact": f"operators@{content['domain']}"}}
    file = tmp_path / NAME / "site.yaml"
    file.parent.mkdir()
    file.write_text(yaml.safe_dump(content))
    return file


def test_plan_up_again_and_destroy(place: Place, cloud: Connection, site_file: Path) -> None:
    """Every layer comes up with nothing but a member's credentials, through a bastion; the quota is given back."""
    network: Any = cloud.network
    planned = strata("plan", site_file, "--layer", "cloud", environment=place.environment)
    assert planned.returncode == 0, planned.stderr
    assert "create instance gpu-worker-1" in planned.stdout, planned.stdout[-3000:]
    first = up(site_file, environment=place.environment)
    assert first["changed"] > INSTANCES
    servers = [s for s in cloud.compute.servers(all_projects=True) if s.project_id == place.project]
    assert {s.status for s in servers} == {"ACTIVE"}
    assert len(servers) == INSTANCES
    addresses = {ip.floating_ip_address for ip in network.ips(project_id=place.project)}
    assert len(addresses) == 1  # the load balancer's, also for the API of the three control planes
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

    adopted = strata("adopt", site_file, "--yes", "--json", environment=environment)
    assert adopted.returncode == 0, adopted.stderr
    found = json.loads(adopted.stdout)
    assert found["adopted"]
    assert found["missing"] == []
    assert {row["key"]: row["differs"] for row in found["objects"] if row["differs"]} == {}
    assert ids <= {row["id"] for row in found["objects"]}
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
        servers |= {str(one.id) for one in getattr(network, kind)(project_id=place.project)}
    return servers | {
        str(p.id) for p in network.ports(project_id=place.project) if p.device_owner.startswith("compute:")
    }
