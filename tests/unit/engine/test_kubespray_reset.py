"""`strata kubespray SITE --reset`."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from typer.testing import CliRunner

from strata.access.ssh import Unreachable
from strata.cli.main import app
from strata.drift import baseline
from strata.engine.machine_nodes import MachineNodes
from strata.errors import UserError
from strata.installers.kubespray import reset, run
from strata.installers.kubespray.commands import RESET, Record, Run, check_nodes
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site.data_protection import Kept, ProtectedResources
from strata.site.outputs import ClusterOutputs, write_private
from strata.site_file.inventories import find_site
from strata.stacks import pulumi

NODES = {"calit2-control-1": ("kube_control_plane",), "calit2-old": ("kube_node",)}


class Site:
    """Nautilus with a cluster; SSH, Ansible and pulumi keep what they were asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.context = SiteContext.load(find_site("nautilus"))
        self.paths = self.context.paths.create()
        self.ran: list[Run] = []
        self.ssh: list[str] = []
        self.pulumi: list[tuple[str, ...]] = []
        self.failing = False
        self.stack = pulumi.Run("platform", self.context.site, self.paths, Silent(), self.context.site_file).state_file
        monkeypatch.setattr(reset, "wait_for_ssh", lambda *_: None)
        monkeypatch.setattr(reset, "run_ssh", self.run_ssh)
        monkeypatch.setattr(reset, "run_playbook", self.run_playbook)
        monkeypatch.setattr(pulumi.Run, "command", self.command)

    def install(self) -> None:
        """Writes what `up` leaves."""
        Record(version="2.31.0", kubernetes="1.35.4", nodes=NODES).save(self.paths)
        api = "https://192.0.2.2:6443"
        ClusterOutputs(api_endpoint=api, kubernetes_version="v1.35.4", installer="kubespray").save(self.paths)
        MachineNodes(addresses={"calit2-dtn-1": "192.0.2.1"}).save(self.paths)
        kept = (
            Kept(kind="host", name="calit2-control-1", detail="kube_control_plane"),
            Kept(kind="host", name="calit2-storage", detail="kube_control_plane, nfs_server"),
            Kept(kind="namespace", name="keycloak"),
            Kept(kind="database", name="keycloak"),
        )
        ProtectedResources(kept=kept).save(self.paths)
        for file in (self.paths.kubeconfig, self.stack, self.record_of_a_node):
            write_private(file, "{}")

    @property
    def record_of_a_node(self) -> Any:
        return baseline.directory(self.paths, "kubespray") / "calit2-dtn-1.json"

    def run_ssh(self, _: SiteContext, address: str, command: str) -> subprocess.CompletedProcess[str]:
        assert "pod-network" in command
        self.ssh.append(address)
        return subprocess.CompletedProcess([], 0, "", "")

    def run_playbook(self, run: Run, context: SiteContext, _: object) -> int:
        self.ran.append(run)
        done = Record.load(context.paths)
        assert done is not None
        assert (done.version, done.unfinished) == ("", RESET)
        assert not self.record_of_a_node.exists()
        if self.failing:
            raise UserError("kubespray reset: calit2-dtn-1: no space left", fix="again")
        return 7

    def command(self, *arguments: str, **_: object) -> str:
        self.pulumi.append(arguments)
        self.stack.unlink()
        return ""

    def invoke(self, *options: str, answer: str | None = None) -> Any:
        """The result of the command."""
        return CliRunner().invoke(app, ["kubespray", "nautilus", "--reset", *options], input=answer)


@pytest.fixture
def site(state_directory: object, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Without a cluster."""
    return Site(monkeypatch)


def test_the_cluster_leaves_the_nodes_and_the_state(site: Site) -> None:
    site.install()
    done = site.invoke("--yes")
    assert done.exit_code == 0, done.output
    (run,) = site.ran
    # both: reset.yml skips its prompt by one, and checks the other
    assert (run.playbook, run.variables) == ("reset", {"skip_confirmation": True, "reset_confirmation": True})
    assert site.pulumi == [("stack", "rm", "--yes", "--force")]
    assert [outputs.load(site.paths) for outputs in (Record, ClusterOutputs, MachineNodes)] == [None] * 3
    assert not site.paths.kubeconfig.exists()
    kept = {entry.key: entry.detail for entry in ProtectedResources.of(site.paths).kept}
    assert kept == {"host/calit2-storage": "nfs_server", "database/keycloak": ""}
    assert "Not in the site file, and left as they are: calit2-old" in done.output
    assert "the cluster of nautilus is reset" in done.output


def test_a_failed_reset_is_repeated_and_up_waits_for_it(site: Site) -> None:
    site.install()
    site.failing = True
    failed = site.invoke("--yes")
    assert "no space left" in str(failed.exception)
    assert site.paths.kubeconfig.exists()
    done = Record.load(site.paths)
    assert done is not None
    for refusal in (lambda: check_nodes(done, {}), lambda: run.prepare(site.context)):
        with pytest.raises(UserError, match="reset of the cluster did not finish"):
            refusal()
    site.failing = False
    assert site.invoke("--yes").exit_code == 0
    assert Record.load(site.paths) is None


def test_nothing_is_reset_unless_confirmed(site: Site) -> None:
    site.install()
    done = site.invoke(answer="n\n")
    assert (done.exit_code, site.ran, site.paths.kubeconfig.exists()) == (1, [], True)
    assert "Kubernetes, etcd and containerd are removed from calit2-" in done.output


def test_a_site_without_a_cluster_is_not_reset(site: Site) -> None:
    """Its machines may belong to another one."""
    done = site.invoke("--yes")
    assert isinstance(done.exception, UserError)
    assert "there is no cluster to reset" in done.exception.message
    assert site.ran == []


def test_a_node_that_stops_to_respond_is_named(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: object) -> None:
        raise Unreachable("connection timed out")

    site.install()
    monkeypatch.setattr(reset, "runs_role", lambda *_: True)
    monkeypatch.setattr(reset, "run_ssh", silent)
    with pytest.raises(UserError, match=r"kubespray reset: calit2-.*: connection timed out"):
        reset.reset(site.context, Silent())
    assert site.ran == []
