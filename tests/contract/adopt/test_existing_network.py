"""A network of another project: what neutron would refuse half way is known before anything is created."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from strata.engine.existing_cloud.checks import check_existing_cloud
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site_file.problems import SiteError

from .conftest import Place
from .small_cloud import SmallCloud, serve


@pytest.fixture
def shared(state_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A site in a network of another project."""
    with serve(SmallCloud("campus")) as cloud:
        network = cloud.neutron.create(
            "networks", {"name": "shared", "shared": True, "port_security_enabled": True}, project="other"
        )
        cloud.neutron.create(
            "subnets", {"name": "shared", "network_id": network["id"], "cidr": "10.79.0.0/24"}, project="other"
        )
        place = Place(tmp_path, cloud)
        place.write_files()
        content = yaml.safe_load(place.file.read_text())
        content["cloud"]["networks"] = [{"name": "shared", "existing": True, "cidr": "10.79.0.0/24"}]
        for instance in content["cloud"]["instances"]:
            instance["network"] = "shared"
        place.file.write_text(yaml.safe_dump(content))
        monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
        yield place


def check(place: Place) -> None:
    check_existing_cloud(SiteContext.load(place.file), Silent())


def test_a_network_whose_ports_may_have_one_address_only(shared: Place) -> None:
    """Asked of neutron, because clouds differ; nothing is created by that."""
    with pytest.raises(SiteError) as raised:
        check(shared)
    (problem,) = raised.value.problems
    assert problem.key == "cloud.networks[0].existing"
    assert "neutron does not permit allowed_address_pairs" in problem.why
    assert "remove existing: true" in problem.fix
    shared.cloud.neutron.permits_pairs = True
    check(shared)
    assert shared.cloud.neutron.objects["ports"] == {}


def test_a_network_without_port_security(shared: Place) -> None:
    shared.cloud.neutron.permits_pairs = True
    network = shared.cloud.neutron.named("networks", "shared")
    network["port_security_enabled"] = False
    with pytest.raises(SiteError) as raised:
        check(shared)
    (problem,) = raised.value.problems
    assert problem.key == "cloud.networks[0].name"
    assert problem.fix.startswith(f"have its owner run `openstack network set --enable-port-security {network['id']}`")
