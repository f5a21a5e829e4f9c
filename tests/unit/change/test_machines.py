"""Machines that leave the site file leave the cluster; one with another host key needs approval."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.access import ssh
from strata.cli.lifecycle_choice import lifecycle_of
from strata.engine import machines
from strata.engine.changes import drain
from strata.engine.changes.disruption import Approval, warnings
from strata.engine.machine_nodes import leaving_machines, remember_nodes, with_machines
from strata.errors import UserError
from strata.layers import Layer
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site_file.inventories import find_site

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEU2oTxwRBPdyyc8YYpNqvdOWWYxpZqzZzYMDRqwHNTv"
CHANGED = "Host key for 198.18.13.22 has changed.\\nHost key verification failed.\\n"


@pytest.fixture
def context(state_directory: Path) -> SiteContext:
    """metal, with a cluster that has its machines."""
    loaded = SiteContext.load(find_site("metal"))
    loaded.paths.create()
    loaded.paths.kubeconfig.touch()
    remember_nodes(loaded)
    return loaded


def edited(context: SiteContext, *leaving: str, **addresses: str) -> SiteContext:
    """The site without some machines, and with others at another address."""
    hosts = context.site.hosts
    kept = tuple(m for m in hosts.machines if m.name not in leaving)
    site = context.site.model_copy(update={"hosts": hosts.model_copy(update={"machines": kept})})
    moved = {name.replace("_", "-"): address for name, address in addresses.items()}
    return with_machines(SiteContext(site, context.site_file, context.paths), moved)


def test_a_machine_that_is_removed_or_moved_leaves(context: SiteContext) -> None:
    assert leaving_machines(context) == {}
    changed = edited(context, "worker-1", worker_2="198.18.13.99")
    assert leaving_machines(changed) == {"worker-1": "198.18.13.21", "worker-2": "198.18.13.22"}
    messages = warnings(changed, lifecycle_of(changed), [Layer.HOSTS])
    assert [line.partition(":")[0] for line in sorted(messages)] == [
        "node worker-1 (198.18.13.21)",
        "node worker-2 (198.18.13.22)",
    ]
    assert warnings(changed, lifecycle_of(changed), [Layer.PLATFORM]) == []


def test_it_is_reset_over_ssh_at_its_old_address(context: SiteContext, monkeypatch: pytest.MonkeyPatch) -> None:
    reset: list[str] = []

    def run_ssh(given: SiteContext, address: str, _: str, **__: object) -> None:
        reset.append(f"{ssh.ssh_line(given, address)[1]}@{address}")

    monkeypatch.setattr(drain, "run_ssh", run_ssh)
    monkeypatch.setattr(drain, "_members", lambda *_: {"control-1", "worker-1", "worker-2"})
    monkeypatch.setattr(drain, "_drain_unless_lost", lambda *_: None)
    monkeypatch.setattr(drain, "_kubectl", lambda *_: None)
    changed = edited(context, "worker-1", worker_2="198.18.13.99")
    assert machines.remove_leaving(changed, Approval(), Silent()) == 2
    assert sorted(reset) == ["ops@198.18.13.21", "ops@198.18.13.22"]
    assert leaving_machines(changed) == {}


def test_it_stays_recorded_while_it_cannot_leave(context: SiteContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def stuck(*_: object) -> None:
        raise UserError("node worker-1 cannot be drained", fix="")

    monkeypatch.setattr(machines, "remove_nodes", stuck)
    changed = edited(context, "worker-1")
    with pytest.raises(UserError):
        machines.remove_leaving(changed, Approval(), Silent())
    assert list(leaving_machines(changed)) == ["worker-1"]


def test_nodes_of_another_installer_leave_the_same_way(context: SiteContext) -> None:
    assert context.site.cluster is not None
    cluster = context.site.cluster.model_copy(update={"installer": "kubespray", "datastore": "etcd"})
    site = context.site.model_copy(update={"cluster": cluster})
    other = SiteContext(site, context.site_file, context.paths)
    remember_nodes(other)
    assert list(leaving_machines(edited(other, "worker-1"))) == ["worker-1"]


@pytest.fixture
def reinstalled(context: SiteContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """worker-2 answers with another key until the known one is dropped; all others answer."""
    address = "198.18.13.22"
    context.paths.known_hosts.write_text(f"{address} {KEY}\n198.18.13.21 {KEY}\n")
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\ncase \"$*\" in *@{address}*) grep -q '^{address} ' {context.paths.known_hosts} "
        f"&& {{ printf '{CHANGED}' >&2; exit 255; }};; esac\nexit 0\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return address


def test_a_changed_key_is_refused_with_the_option_that_accepts_it(context: SiteContext, reinstalled: str) -> None:
    with pytest.raises(UserError, match=rf"worker-2 \({reinstalled}\) has another SSH host key") as refused:
        ssh.wait_for_ssh(context, Silent())
    assert "strata up metal --replace worker-2" in (refused.value.fix or "")


def test_only_an_approved_machine_with_another_key_is_accepted(
    context: SiteContext, reinstalled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted: list[str] = []
    monkeypatch.setattr(machines, "kubectl", lambda _, *arguments, **__: deleted.append(arguments[2]))
    assert machines.accept_replaced(context, {"worker-1"}, Silent()) == 0
    assert machines.accept_replaced(context, {"worker-1", "worker-2"}, Silent()) == 1
    assert deleted == ["worker-2"]
    assert reinstalled not in context.paths.known_hosts.read_text()
    assert "198.18.13.21" in context.paths.known_hosts.read_text()
    ssh.wait_for_ssh(context, Silent())


def test_a_machine_that_does_not_respond_has_another_fix_than_an_instance(
    context: SiteContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'Permission denied (publickey).' >&2; exit 255\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setattr(ssh, "SSH_SECONDS", 0.0)
    with pytest.raises(UserError, match=r"Permission denied") as refused:
        ssh.wait_for_ssh(context, Silent())
    assert "ssh_key.pub to ops's authorized_keys" in (refused.value.fix or "")
    assert "openstack" not in (refused.value.fix or "")
