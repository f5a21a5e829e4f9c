"""The substitute Kubernetes plugin, driven by the real engine, with the real helm against a real API server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.progress import Silent
from strata.stacks.events import Events
from strata.toolchain import tools_environment
from strata_bench.api_server import ApiServer
from strata_bench.waiting import eventually

PROGRAM = """
import json
import os
from pathlib import Path

import pulumi
import pulumi_kubernetes as kubernetes

provider = kubernetes.Provider("cluster", kubeconfig=os.environ["TEST_KUBECONFIG"])
for name, release in json.loads(Path("releases.json").read_text()).items():
    values = dict(release["values"])
    if "password" in values:
        values["password"] = pulumi.Output.secret(values["password"])
    kubernetes.helm.v3.Release(
        name,
        kubernetes.helm.v3.ReleaseArgs(
            name=name,
            chart=release.get("chart", "./chart"),
            namespace=release.get("namespace", "contract"),
            create_namespace=True,
            values=values,
            timeout=release.get("timeout", 60),
            atomic=release.get("atomic", True),
            allow_null_values=release.get("nulls"),
        ),
        opts=pulumi.ResourceOptions(provider=provider),
    )
"""
CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {greeting: {{ .Values.greeting | quote }}}
---
apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}}
stringData: {password: {{ .Values.password | quote }}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: {{ .Release.Name }}}
spec: {containers: [{name: main, image: "registry.invalid/missing:1"}]}
"""
PASSWORD = "not-to-be-seen-anywhere"
RELEASE = {"values": {"greeting": "hello", "password": PASSWORD}}


class Stack:
    """A Pulumi program of releases, described by a dict."""

    def __init__(self, directory: Path, server: ApiServer) -> None:
        self.directory = directory
        self.server = server
        self.backend = directory / "backend"
        self.backend.mkdir()
        (directory / "Pulumi.yaml").write_text("{name: contract, runtime: python}")
        (directory / "__main__.py").write_text(PROGRAM)
        self.write_chart("chart", CONFIG_MAP)
        self.environment = tools_environment() | {
            "PULUMI_BACKEND_URL": f"file://{self.backend}",
            "PULUMI_CONFIG_PASSPHRASE": "test",
            "TEST_KUBECONFIG": str(server.kubeconfig),
        }
        self._pulumi("stack", "init", "test")

    def write_chart(self, name: str, template: str) -> None:
        chart = self.directory / name
        (chart / "templates").mkdir(parents=True, exist_ok=True)
        (chart / "Chart.yaml").write_text("{apiVersion: v2, name: " + name + ", version: 0.1.0}")
        (chart / "templates" / "all.yaml").write_text(template)

    def _pulumi(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def run(self, operation: str, releases: dict[str, Any] | None = None, *arguments: str) -> Events:
        """Runs an operation; returns its events."""
        if releases is not None:
            (self.directory / "releases.json").write_text(json.dumps(releases))
        done = self._pulumi(operation, "--yes", "--skip-preview", "--json", "--stack", "test", *arguments)
        events = Events(Silent())
        for line in done.stdout.splitlines():
            events.read(line)
        assert done.returncode == 0 or events.failures, done.stdout + done.stderr
        return events

    def state(self) -> str:
        return (self.backend / ".pulumi" / "stacks" / "contract" / "test.json").read_text()


@pytest.fixture
def stack(tmp_path: Path, api_server: ApiServer) -> Stack:
    return Stack(tmp_path, api_server)


def counts(events: Events) -> tuple[int, int, int]:
    assert not events.failures, events.failures
    return events.created, events.updated, events.deleted


def test_life_of_a_release(stack: Stack, api_server: ApiServer) -> None:
    """Create, change, no change, destroy; modified values, a lost object and a lost release are repaired."""
    names = ("by-hand", "no-object", "no-release")
    assert counts(stack.run("up", dict.fromkeys(names, RELEASE))) == (3, 0, 0)
    assert [greeting(api_server, name) for name in names] == ["hello"] * 3
    assert PASSWORD not in stack.state()

    changed = {"values": {"greeting": "good evening", "password": PASSWORD}}
    assert counts(stack.run("up", dict.fromkeys(names, RELEASE) | {"by-hand": changed})) == (0, 1, 0)
    assert [greeting(api_server, name) for name in names] == ["good evening", "hello", "hello"]

    api_server.helm(
        *("upgrade", "by-hand", str(stack.directory / "chart"), "-n", "contract"),
        *("--set", "greeting=intruder,password=other"),
    )
    api_server.kubectl("delete", "configmap", "no-object", "-n", "contract")
    api_server.helm("uninstall", "no-release", "-n", "contract")
    assert counts(stack.run("up", None, "--refresh")) == (1, 2, 0)
    assert api_server.helm("get", "values", "by-hand", "-n", "contract", "-o", "json")["greeting"] == "good evening"
    assert [greeting(api_server, name) for name in names] == ["good evening", "hello", "hello"]
    assert counts(stack.run("up", None, "--refresh")) == (0, 0, 0)

    stack.run("destroy")
    assert api_server.helm("list", "-n", "contract", "-o", "json") == []
    assert PASSWORD not in stack.state()


def greeting(api_server: ApiServer, name: str) -> str:
    """What a release's ConfigMap has in the cluster."""
    return api_server.kubectl("get", "configmap", name, "-n", "contract", "-o", "jsonpath={.data.greeting}")


def test_null_removes_a_default_of_the_chart(stack: Stack, api_server: ApiServer) -> None:
    """As `helm --values` does, through the engine and the plugin."""
    stack.write_chart("chart", CONFIG_MAP.replace("greeting: {{", "salutation: {{"))
    (stack.directory / "chart" / "values.yaml").write_text("greeting: hello\n")
    values = {"greeting": None, "password": PASSWORD}
    assert counts(stack.run("up", {"removed": {"values": values, "nulls": True}})) == (1, 0, 0)
    data = api_server.kubectl("get", "configmap", "removed", "-n", "contract", "-o", "jsonpath={.data.salutation}")
    assert data == ""
    assert counts(stack.run("up", None, "--refresh")) == (0, 0, 0)
    assert counts(stack.run("up", {"removed": {"values": values}})) == (0, 1, 0)
    data = api_server.kubectl("get", "configmap", "removed", "-n", "contract", "-o", "jsonpath={.data.salutation}")
    assert data == "hello", "without the flag, the plugin drops null"
    stack.run("destroy")


@pytest.mark.nightly
def test_changed_chart_is_noticed(stack: Stack, api_server: ApiServer) -> None:
    stack.run("up", {"chart": RELEASE})
    stack.write_chart("chart", CONFIG_MAP.replace("greeting: {{", "salutation: {{"))
    assert counts(stack.run("up")) == (0, 1, 0)
    data = json.loads(api_server.kubectl("get", "configmap", "chart", "-n", "contract", "-o", "jsonpath={.data}"))
    assert data == {"salutation": "hello"}
    stack.run("destroy")


@pytest.mark.nightly
def test_release_that_does_not_get_ready_gives_the_reason(stack: Stack, api_server: ApiServer) -> None:
    """There is no node and no controller: nothing gets ready. The pod and its event are put there by hand."""
    stack.write_chart("pod", POD)
    api_server.kubectl("create", "namespace", "failing")
    api_server.kubectl("create", "-f", _event(stack.directory, "failing", "stuck"))
    events = stack.run(
        "up", {"stuck": {"chart": "./pod", "namespace": "failing", "values": {}, "timeout": 5, "atomic": True}}
    )
    text = "\n".join(str(failure) for failure in events.failures)
    assert "release stuck" in text
    assert "pod stuck: FailedScheduling: no nodes available" in text
    assert api_server.helm("list", "-a", "-n", "failing", "-o", "json") == [], "atomic leaves nothing"

    events = stack.run(
        "up", {"stuck": {"chart": "./pod", "namespace": "failing", "values": {}, "timeout": 5, "atomic": False}}
    )
    assert events.failures
    assert api_server.helm("list", "-a", "-n", "failing", "-o", "json")[0]["status"] == "failed"
    stack.write_chart("pod", CONFIG_MAP)
    repaired = {"chart": "./pod", "namespace": "failing", **RELEASE}
    assert counts(stack.run("up", {"stuck": repaired}))[2] == 0
    assert api_server.helm("list", "-n", "failing", "-o", "json")[0]["status"] == "deployed"
    stack.run("destroy")


def _event(directory: Path, namespace: str, pod: str) -> str:
    file = directory / "event.yaml"
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "stuck", "namespace": namespace},
        "involvedObject": {"kind": "Pod", "name": pod, "namespace": namespace},
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": "no nodes available",
        "lastTimestamp": "2030-01-01T00:00:00Z",
    }
    file.write_text(yaml.safe_dump(event))
    return str(file)


@pytest.mark.nightly
def test_release_of_a_killed_run_is_taken_over(stack: Stack, api_server: ApiServer) -> None:
    api_server.helm(
        *("install", "taken", str(stack.directory / "chart"), "-n", "contract", "--create-namespace"),
        *("--set", "greeting=old,password=old"),
    )
    assert counts(stack.run("up", {"taken": RELEASE})) == (1, 0, 0)
    assert api_server.helm("get", "values", "taken", "-n", "contract", "-o", "json")["greeting"] == "hello"
    stack.run("destroy")


@pytest.mark.nightly
def test_release_of_a_killed_helm_is_cleared(stack: Stack, api_server: ApiServer, tools: dict[str, str]) -> None:
    """A killed `helm install` leaves the status pending-install, on which helm refuses to work."""
    stack.write_chart("pod", POD)
    helm = subprocess.Popen(
        [
            *(tools["helm"], "--kubeconfig", str(api_server.kubeconfig), "install", "half"),
            *(str(stack.directory / "pod"), "--namespace", "contract", "--create-namespace", "--wait"),
        ],
        stderr=subprocess.DEVNULL,
    )
    eventually(
        lambda: "half" in api_server.kubectl("get", "pods", "-n", "contract", "-o", "name"),
        180,
        "helm has made the pod",
    )
    helm.kill()
    helm.wait()
    assert api_server.helm("list", "-a", "-n", "contract", "-o", "json")[0]["status"] == "pending-install"
    stack.write_chart("pod", CONFIG_MAP)
    assert counts(stack.run("up", {"half": {"chart": "./pod", **RELEASE}})) == (1, 0, 0)
    assert api_server.helm("list", "-n", "contract", "-o", "json")[0]["status"] == "deployed"
    stack.run("destroy")


def test_foreign_release_is_left_alone(stack: Stack, api_server: ApiServer) -> None:
    stack.write_chart("other", CONFIG_MAP)
    api_server.helm(
        *("install", "foreign", str(stack.directory / "other"), "-n", "contract", "--create-namespace"),
        *("--set", "greeting=theirs,password=theirs"),
    )
    events = stack.run("up", {"foreign": RELEASE})
    assert "a release contract/foreign of the chart other is there already" in str(events.failures[0])
    assert api_server.helm("get", "values", "foreign", "-n", "contract", "-o", "json")["greeting"] == "theirs"
    api_server.helm("uninstall", "foreign", "-n", "contract")
    stack.run("destroy")


def test_missing_chart_is_named(stack: Stack) -> None:
    events = stack.run("up", {"missing": {"chart": "./nowhere", "values": {}}})
    assert "no chart at nowhere" in str(events.failures[0])


def test_plugin_prints_its_port_and_ends_on_signal() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "strata_lab.kubernetes_provider", "127.0.0.1:1"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": "src"},
    )
    assert process.stdout is not None
    assert 0 < int(process.stdout.readline()) < 65536
    process.terminate()
    assert process.wait(5) == 0
