"""Hypervisors of a Kolla cloud under the real Ansible, on a published machine's sysfs: reboots, refusals, record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.cloud.clouds_file import entries
from strata.engine.changes.disruption import ApprovalNeeded
from strata.errors import UserError
from strata.installers.kolla import drain
from strata.installers.kolla.commands import Record
from strata.installers.kolla.files import section
from strata.installers.kolla.passthrough import is_done
from strata.models.pci_passthrough import PciPassthrough
from strata.site.context import SiteContext
from strata.site_file.inventories import find_site

from ..pci_passthrough.sysfs import build
from .hypervisors import always, inventory_of, rebooted_hosts, run
from .small_nova import Instance, SmallNova, serve

CARDS = {"rtx2080ti": 1}
UNBOUND = {"10de:1e07": "nouveau", "*": "xhci_hcd"}
BOUND = {"*": "vfio-pci"}


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteContext:
    """tacc with two hypervisors with cards that are one machine, this one, whose sysfs is a published one."""
    monkeypatch.setenv("STRATA_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(drain, "POLL_SECONDS", 0.0)
    programs = tmp_path / "bin"
    programs.mkdir()
    for tool in ("update-grub", "update-initramfs"):
        (programs / tool).write_text("#!/bin/sh\n")
        (programs / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    loaded = SiteContext.load(find_site("tacc"))
    assert loaded.site.cloud is not None
    hosts = [host for host in loaded.site.cloud.hypervisors if host.name in ("c01", "gpu01", "gpu02")]
    hosts = [host.model_copy(update={"accelerators": CARDS}) if host.accelerators else host for host in hosts]
    cloud = loaded.site.cloud.model_copy(update={"hypervisors": tuple(hosts)})
    loaded.paths.create()
    return SiteContext(loaded.site.model_copy(update={"cloud": cloud}), loaded.site_file, loaded.paths)


def deployed(context: SiteContext, nova: SmallNova) -> None:
    """Records that OpenStack is deployed, with this nova."""
    Record(done={"deploy": "x"}).save(context.paths)
    entry = entries(context.site.name, section(context.site)[0]).administrator
    content = {"clouds": {entry: {"auth_type": "none", "auth": {"endpoint": nova.url}}}}
    context.paths.clouds_file.write_text(yaml.safe_dump(content))


def test_hosts_with_cards_are_prepared_before_nova_and_recorded(context: SiteContext, tmp_path: Path) -> None:
    for host in ("gpu01", "gpu02"):
        build(tmp_path / host, "ryzen", BOUND)
    assert not is_done(context)
    assert run(context, tmp_path) > 0
    assert rebooted_hosts(context) == {"gpu01": True, "gpu02": True}
    assert is_done(context)
    assert run(context, tmp_path) == 0
    assert not is_done(_with(context, accelerators={"rtx2080ti": 2}))


def test_chosen_and_unused_devices_reach_the_role(context: SiteContext, tmp_path: Path) -> None:
    """Of a machine whose two cards are in one group."""
    for host in ("gpu01", "gpu02"):
        build(tmp_path / host, "two_cards_one_group", BOUND)
    devices = PciPassthrough(addresses=("0000:01:00.0",), unused=("0000:02:00.0", "0000:02:00.1"))
    run(_with(context, pci_passthrough=devices), tmp_path)
    assert inventory_of(context)["gpu01"]["pci_passthrough_addresses"] == ["0000:01:00.0"]
    script = tmp_path / "gpu01/etc/initramfs-tools/scripts/init-top/strata-pci-passthrough"
    assert "0000:02:00.0 0000:02:00.1; do" in script.read_text()


def test_a_hypervisor_in_use_is_not_rebooted_without_approval(context: SiteContext, tmp_path: Path) -> None:
    """gpu01 runs instances, gpu02 is drained; the first stops the run before the second."""
    for host in ("gpu01", "gpu02"):
        build(tmp_path / host, "ryzen", UNBOUND, iommu=False)
    with serve(SmallNova("c01", "gpu01", "gpu02")) as nova:
        deployed(context, nova)
        nova.services["gpu02"] |= {"status": "disabled", "disabled_reason": "hardware"}
        gpu = nova.add(Instance("cic-gpu01", "gpu01", alias="v100:1"))
        nova.add(Instance("cic-worker-1", "gpu01"))
        # even an approval does not end what cannot be migrated
        with pytest.raises(UserError) as refused:
            run(context, tmp_path, always)
        assert refused.value.message.startswith("PCI passthrough: gpu01 needs a reboot (the IOMMU is off; ")
        assert f"cannot be migrated: cic-gpu01 ({gpu.id}) runs with PCI devices" in refused.value.message
        assert "cic-worker-1" not in refused.value.message
        assert "Then run `strata up tacc` again" in (refused.value.fix or "")
        nova.instances.remove(gpu)
        with pytest.raises(ApprovalNeeded) as asked:
            run(context, tmp_path)
        assert asked.value.message.startswith("gpu01 is drained (the IOMMU is off; ")
        assert "instances: cic-worker-1" in asked.value.message
        assert (asked.value.fix or "").endswith("strata up tacc --yes")
        assert asked.value.askable
        assert nova.writes == []
    assert rebooted_hosts(context) == {"gpu01": False, "gpu02": True}
    assert (tmp_path / "gpu01/etc").exists()
    assert not (tmp_path / "gpu02/etc").exists()
    assert not is_done(context)


def test_a_drained_hypervisor_with_an_instance_is_in_use(context: SiteContext, tmp_path: Path) -> None:
    for host, drivers in (("gpu01", UNBOUND), ("gpu02", BOUND)):
        build(tmp_path / host, "ryzen", drivers)
    with serve(SmallNova("c01", "gpu01", "gpu02")) as nova:
        deployed(context, nova)
        nova.services["gpu01"] |= {"status": "disabled", "disabled_reason": "hardware"}
        nova.add(Instance("forgotten", "gpu01"))
        with pytest.raises(ApprovalNeeded, match="instances: forgotten"):
            run(context, tmp_path)


def test_a_hypervisor_with_another_name_in_nova_is_not_rebooted(context: SiteContext, tmp_path: Path) -> None:
    """Its instances would not be found."""
    for host in ("gpu01", "gpu02"):
        build(tmp_path / host, "ryzen", UNBOUND)
    with serve(SmallNova("gpu01.example.org", "gpu02")) as nova:
        deployed(context, nova)
        with pytest.raises(UserError, match=r"name of the hypervisor gpu01 is gpu01\.example\.org"):
            run(context, tmp_path, always)
    assert not (tmp_path / "gpu01/etc").exists()


def test_hypervisors_are_emptied_rebooted_and_enabled_one_after_the_other(context: SiteContext, tmp_path: Path) -> None:
    """An instance that does not leave interrupts it; another run resumes. In place of a reboot, sysfs changes."""
    for host in ("gpu01", "gpu02"):
        build(tmp_path / host, "ryzen", UNBOUND)
    with serve(SmallNova("gpu01", "gpu02")) as nova:
        deployed(context, nova)
        nova.emptied = lambda host: build(tmp_path / host, "ryzen", BOUND)
        nova.add(Instance("first", "gpu01"))
        second = nova.add(Instance("second", "gpu01", refused=True))
        with pytest.raises(UserError, match=r"second stays on gpu01: it is refused .*No valid host was found"):
            run(context, tmp_path, always)
        assert nova.services["gpu01"]["disabled_reason"] == drain.REASON
        assert not is_done(context)
        with pytest.raises(ApprovalNeeded):
            run(context, tmp_path)
        second.refused = False
        assert run(context, tmp_path, always) > 0
        # gpu01 takes the instances of gpu02 as soon as it is back
        assert {instance.name: instance.host for instance in nova.instances} == {"first": "gpu01", "second": "gpu01"}
        assert {s["status"] for s in nova.services.values()} == {"enabled"}
    assert rebooted_hosts(context)["gpu02"]
    assert is_done(context)


def test_a_shared_iommu_group_is_refused_before_anything_is_written(context: SiteContext, tmp_path: Path) -> None:
    """The published machine has two V100 in group 19."""
    build(tmp_path / "gpu01", "six_v100", BOUND)
    with pytest.raises(UserError, match=r"gpu01: .*shares IOMMU group 19"):
        run(_with(context, accelerators={"v100": 6}), tmp_path)
    assert not (tmp_path / "gpu01/etc").exists()


def _with(context: SiteContext, **changes: Any) -> SiteContext:
    """The site with changes of its hypervisors with cards."""
    cloud = context.site.cloud
    assert cloud is not None
    hosts = [h.model_copy(update=changes) if h.accelerators else h for h in cloud.hypervisors]
    site = context.site.model_copy(update={"cloud": cloud.model_copy(update={"hypervisors": tuple(hosts)})})
    return SiteContext(site, context.site_file, context.paths)
