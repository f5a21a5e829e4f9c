"""What a killed run was about to create goes; what the state knows, and what is others', stays."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from strata.progress import Silent
from strata.site.context import SiteContext
from strata.stacks import pending as pulumi_pending
from strata.stacks.recovery import INSTANCE

URN = "urn:pulumi:lab::strata-cloud::"
KNOWN, HALF_MADE = "known", "half-made"


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """openstacksdk's connection; its lists are what a test states."""
    connection = MagicMock()
    connection.__enter__.return_value = connection
    connection.identity.find_project.return_value = SimpleNamespace(id="project")
    monkeypatch.setattr(pulumi_pending, "connect", lambda _: connection)
    return connection


def forget(file: Path, context: SiteContext, kind: str, **inputs: object) -> bool:
    """A state that knows one object, and a run that was killed while it created one."""
    creation = {"type": "creating", "resource": {"urn": f"{URN}{kind}::some", "inputs": inputs}}
    latest = {"resources": [{"urn": f"{URN}other::known", "id": KNOWN}], "pending_operations": [creation]}
    file.write_text(json.dumps({"checkpoint": {"latest": latest}}))
    return pulumi_pending.delete_pending(file, context, Silent())


def deleted(method: MagicMock) -> list[str]:
    return [call.args[0].id for call in method.call_args_list]


def objects(**attributes: Any) -> list[SimpleNamespace]:
    return [SimpleNamespace(id=id, **attributes) for id in (KNOWN, HALF_MADE)]


def test_an_instance(tmp_path: Path, context: SiteContext, cloud: MagicMock) -> None:
    others = SimpleNamespace(id="foreign", name="worker-1", project_id="other")
    cloud.compute.servers.return_value = [*objects(name="worker-1", project_id="project"), others]
    assert forget(tmp_path / "state.json", context, INSTANCE, name="worker-1")
    assert deleted(cloud.compute.delete_server) == [HALF_MADE]


def test_a_router_goes_with_its_interfaces(tmp_path: Path, context: SiteContext, cloud: MagicMock) -> None:
    cloud.network.routers.return_value = objects(name="lab")
    cloud.network.ports.return_value = [SimpleNamespace(id="port")]
    assert forget(tmp_path / "state.json", context, "openstack:networking/router:Router", name="lab")
    assert deleted(cloud.network.delete_router) == [HALF_MADE]
    assert cloud.network.remove_interface_from_router.call_args.kwargs == {"port": "port"}


def test_an_interface_of_a_known_router(tmp_path: Path, context: SiteContext, cloud: MagicMock) -> None:
    here, elsewhere = [{"subnet_id": "subnet"}], [{"subnet_id": "other"}]
    others = SimpleNamespace(id="other", fixed_ips=elsewhere)
    cloud.network.ports.return_value = [*objects(fixed_ips=here), others]
    kind = "openstack:networking/routerInterface:RouterInterface"
    assert forget(tmp_path / "state.json", context, kind, routerId=KNOWN, subnetId="subnet")
    assert [c.kwargs["port"] for c in cloud.network.remove_interface_from_router.call_args_list] == [HALF_MADE]
    cloud.network.delete_router.assert_not_called()


def test_a_rule(tmp_path: Path, context: SiteContext, cloud: MagicMock) -> None:
    by_hand = SimpleNamespace(id="by-hand", description="")
    cloud.network.security_group_rules.return_value = [*objects(description="registry"), by_hand]
    kind = "openstack:networking/secGroupRule:SecGroupRule"
    inputs = {"securityGroupId": KNOWN, "direction": "ingress", "description": "registry"}
    assert forget(tmp_path / "state.json", context, kind, **inputs)
    assert deleted(cloud.network.delete_security_group_rule) == [HALF_MADE]


@pytest.mark.parametrize("external", [True, False])
def test_a_network(tmp_path: Path, context: SiteContext, cloud: MagicMock, external: bool) -> None:
    cloud.network.networks.return_value = objects(name="n")
    kind = "openstack:networking/network:Network"
    assert forget(tmp_path / "state.json", context, kind, name="n", external=external)
    assert deleted(cloud.network.delete_network) == [HALF_MADE]
    asked = cloud.network.networks.call_args.kwargs
    assert asked == ({"name": "n", "is_router_external": True} if external else {"name": "n", "project_id": "project"})


def test_a_server_group(tmp_path: Path, context: SiteContext, cloud: MagicMock) -> None:
    """Names are not unique, and an administrator sees those of every project."""
    others = SimpleNamespace(id="foreign", name="control", project_id="other")
    cloud.compute.server_groups.return_value = [*objects(name="control", project_id="project"), others]
    assert forget(tmp_path / "state.json", context, "openstack:compute/serverGroup:ServerGroup", name="control")
    assert deleted(cloud.compute.delete_server_group) == [HALF_MADE]


def test_a_volume(tmp_path: Path, context: SiteContext, cloud: MagicMock, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is attached, or older, has been in use, whatever its name."""
    now = datetime.now(UTC).replace(tzinfo=None)
    lately, before = now.isoformat(), (now - timedelta(days=2)).isoformat()
    attached = SimpleNamespace(id="attached", name="exports", attachments=[{"server_id": "s"}], created_at=lately)
    older = SimpleNamespace(id="older", name="exports", attachments=[], created_at=before)
    volumes = [*objects(name="exports", attachments=[], created_at=lately), attached, older]
    monkeypatch.setattr(pulumi_pending, "volumes", lambda *_: volumes)
    assert forget(tmp_path / "state.json", context, "openstack:blockstorage/volume:Volume", name="exports")
    assert deleted(cloud.block_storage.delete_volume) == [HALF_MADE]


def test_an_attachment(tmp_path: Path, context: SiteContext, cloud: MagicMock) -> None:
    kind = "openstack:compute/volumeAttach:VolumeAttach"
    assert forget(tmp_path / "state.json", context, kind, instanceId="server", volumeId="volume")
    assert cloud.compute.delete_volume_attachment.call_args.args == ("server", "volume")


def test_without_pending_creations_nothing_is_asked(tmp_path: Path, context: SiteContext, cloud: MagicMock) -> None:
    file = tmp_path / "state.json"
    file.write_text(json.dumps({"checkpoint": {"latest": {"resources": [], "pending_operations": []}}}))
    assert not pulumi_pending.delete_pending(file, context, Silent())
    cloud.__enter__.assert_not_called()
