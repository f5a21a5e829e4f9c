"""When `up` runs a Pulumi program again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from strata.cli.lifecycle_choice import lifecycle_of
from strata.drift import program_state
from strata.drift.program_state import ProgramState
from strata.drift.programs import program_drift
from strata.engine import up_steps
from strata.engine.changes.difference import show_difference
from strata.engine.changes.disruption import Approval
from strata.layers import Layer
from strata.processes import tagged
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site.outputs import CloudOutputs
from strata.site.paths import REPOSITORY
from strata.site_file.inventories import find_site
from strata.stacks import inputs
from strata.stacks.pulumi import PulumiResult, Run
from strata.stacks.pulumi_state import state_file
from strata.toolchain import tools_environment

from ..platform.test_values import IMAGES, outputs

PROVIDED = "STRATA_SECRET_TOKEN_OF_THE_TEST"


class Deployed:
    """The lab after a successful `up`, in a repository and a cluster of the test's own."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.repository = directory / "repository"
        self.releases = [
            {
                "name": name,
                "namespace": namespace,
                "revision": "1",
                "status": "deployed",
                "chart": f"{name}-1.0.0",
                "app_version": "",
                "updated": "2026-01-01",
            }
            for name, namespace in (("cluster-base", "strata-system"), ("traefik", "traefik"), ("other", "users"))
        ]
        self.differences: list[dict[str, Any]] = []
        self.asked: list[str] = []
        monkeypatch.setenv("STRATA_STATE_DIR", str(directory / "state"))
        monkeypatch.setenv("STRATA_CACHE_DIR", str(directory / "cache"))
        tools = directory / "tools"
        monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setattr(inputs, "REPOSITORY", self.repository)
        site_file = self.repository / "inventories" / "lab" / "site.yaml"
        for file, text in {
            site_file: find_site("lab").read_text(),
            site_file.with_name("catalogue.json"): find_site("lab").with_name("catalogue.json").read_text(),
            self.repository / "services" / "hub" / "service.py": "SERVICE = 1\n",
            self.repository / "src" / "strata" / "platform" / "releases.py": "TABLE = 1\n",
            self.repository / "pulumi" / "platform" / "__main__.py": "PROGRAM = 1\n",
            self.repository / "pulumi" / "cloud" / "__main__.py": "PROGRAM = 1\n",
            self.repository / "helm" / "hub" / "templates" / "all.yaml": "kind: ConfigMap\n",
            self.repository / "uv.lock": "version = 1\n",
            self.repository / "versions.yaml": "packages: {}\n",
            tools / "pulumi-resource-kubernetes": "4.1\n",
            tools / "pulumi-resource-openstack": "5.4\n",
        }.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        for tool in tools.iterdir():
            tool.chmod(0o755)
        self.tools = tools
        self.context = SiteContext.load(site_file)
        self.paths = self.context.paths.create()
        table = [SimpleNamespace(name=r["name"], namespace=r["namespace"]) for r in self.releases[:2]]
        monkeypatch.setattr(program_state, "releases", lambda _: table)
        monkeypatch.setattr(program_state, "helm_releases", lambda *_: [dict(r) for r in self.releases])
        monkeypatch.setattr(Run, "refresh_differences", lambda _: self._refresh())
        self.context.secrets.get("hub_password")
        self.paths.kubeconfig.write_text("clusters: []\n")
        self.paths.clouds_file.write_text("clouds: {}\n")
        CloudOutputs(instances={}, networks={}).save(self.paths)
        IMAGES.save(self.paths)
        for program in ("cloud", "platform"):
            self.state_of(program).parent.mkdir(parents=True)
            self.state_of(program).write_text("{}")
            ProgramState(self.context, program, Silent()).remember()

    def state_of(self, program: str) -> Path:
        """File of a stack's state."""
        return state_file(self.paths.pulumi, f"strata-{program}", "lab")

    def reason(self, program: Any = "platform") -> str | None:
        """Why `up` would run the program; the site is read again, as by another command."""
        context = SiteContext.load(self.context.site_file)
        return ProgramState(context, program, Silent()).reason_to_run()

    def edit(self, name: str) -> None:
        """Appends an empty line to a file of the repository, which need not exist."""
        file = self.repository / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as stream:
            stream.write("\n")

    def _refresh(self) -> list[dict[str, Any]]:
        self.asked.append("refresh")
        return self.differences


@pytest.fixture
def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployed:
    return Deployed(tmp_path, monkeypatch)


def test_without_a_change_neither_program_runs(deployed: Deployed) -> None:
    assert deployed.reason("platform") is None
    assert deployed.asked == []
    assert deployed.reason("cloud") is None
    assert deployed.asked == ["refresh"]  # the cloud's objects are read each time


@pytest.mark.parametrize(
    "file",
    [
        "services/hub/service.py",
        "services/hub/values.py",
        "src/strata/platform/releases.py",
        "pulumi/platform/__main__.py",
        "helm/hub/templates/all.yaml",
        "inventories/lab/site.yaml",
        "inventories/lab/values/traefik.yaml",
        "inventories/lab/catalogue.json",
        "uv.lock",
        "versions.yaml",
    ],
)
def test_an_edited_or_new_file_is_a_reason(deployed: Deployed, file: str) -> None:
    deployed.edit(file)
    assert deployed.reason() == f"{file} has changed"


def test_a_removed_file_is_a_reason(deployed: Deployed) -> None:
    (deployed.repository / "services" / "hub" / "service.py").unlink()
    assert deployed.reason() == "services/hub/service.py has changed"


def test_files_that_no_program_reads_are_not_a_reason(deployed: Deployed) -> None:
    for name in (
        "docs/README.md",
        "src/strata/__pycache__/x.pyc",
        "services/hub/tests/test_hub.py",
        "services/hub/images/hub/.venv/bin/python",
        "services/hub/.ruff_cache/0.17.5/1",
    ):
        deployed.edit(name)
    assert deployed.reason() is None


Change = Callable[[Deployed, pytest.MonkeyPatch], object]
CHANGES: dict[str, tuple[str, Change]] = {
    "secret hub_password": ("platform", lambda d, _: d.context.secrets.rotate("hub_password")),
    "state of the stack": ("platform", lambda d, _: d.state_of("platform").write_text("{ }")),
    "tool pulumi-resource-kubernetes": (
        "platform",
        lambda d, _: (d.tools / "pulumi-resource-kubernetes").write_text("4.10\n"),
    ),
    "tool pulumi-resource-openstack": (
        "cloud",
        lambda d, _: (d.tools / "pulumi-resource-openstack").write_text("5.5.0\n"),
    ),
    "environment variable OS_REGION_NAME": ("cloud", lambda _, m: m.setenv("OS_REGION_NAME", "other")),
    "environment variable https_proxy": ("platform", lambda _, m: m.setenv("https_proxy", "http://proxy:3128")),
    "Python packages": ("platform", lambda _, m: m.setattr(inputs, "_packages", lambda: "others")),
    "cloud.json": (
        "cloud",
        lambda d, _: CloudOutputs(instances={}, networks={"a": "b"}).save(d.paths),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_kind_of_input_is_a_reason(deployed: Deployed, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, change = CHANGES[name]
    change(deployed, monkeypatch)
    assert deployed.reason(program) == f"{name} has changed"


@pytest.mark.parametrize("output", ["cloud.json", "images.json"])
def test_outputs_of_the_layers_below_are_a_reason(deployed: Deployed, output: str) -> None:
    file = deployed.paths.outputs / output
    file.write_text(file.read_text() + "\n")
    assert deployed.reason("platform") == f"{file} has changed"


@pytest.mark.parametrize(("program", "file"), [("cloud", "clouds_file"), ("platform", "kubeconfig")])
def test_credentials_are_a_reason(deployed: Deployed, program: str, file: str) -> None:
    path: Path = getattr(deployed.paths, file)
    path.write_text("{}\n")
    assert deployed.reason(program) == f"{path} has changed"


def test_a_secret_generated_for_something_else_is_not_a_reason(deployed: Deployed) -> None:
    deployed.context.secrets.get("another_password")
    assert deployed.reason() is None


def test_a_release_modified_outside_strata_is_a_reason(deployed: Deployed) -> None:
    deployed.releases[2]["revision"] = "7"  # not the site's
    assert deployed.reason() is None
    deployed.releases[1]["revision"] = "2"
    assert deployed.reason() == "release traefik/traefik has changed"
    deployed.releases[1]["namespace"] = "elsewhere"
    assert deployed.reason() == "release traefik/traefik has changed"


def test_drift_of_the_cloud_is_a_reason(deployed: Deployed) -> None:
    urn = "urn:pulumi:lab::strata-cloud::openstack:compute/instance:Instance::worker-1"
    deployed.differences = [{"op": "delete", "urn": urn, "type": "openstack:compute/instance:Instance"}]
    assert deployed.reason("cloud") == "instance worker-1 has changed"


def test_a_lock_an_old_success_and_a_failure_are_reasons(deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = deployed.paths.pulumi / ".pulumi" / "locks" / "organization" / "strata-platform" / "lab" / "1.json"
    lock.parent.mkdir(parents=True)
    lock.write_text("{}")
    assert deployed.reason() == "its stack is locked"
    lock.unlink()
    with monkeypatch.context() as later:
        now = time.time()
        later.setattr(time, "time", lambda: now + 25 * 3600)
        assert deployed.reason() == "its last success is more than a day old"
    assert deployed.reason() is None
    ProgramState(deployed.context, "platform", Silent()).invalidate()
    assert deployed.reason() == "it has not succeeded yet"


def test_an_edit_during_the_run_is_a_reason_for_the_next(deployed: Deployed) -> None:
    state = ProgramState(deployed.context, "platform", Silent())
    deployed.edit("services/hub/service.py")
    state.remember()
    assert deployed.reason() == "services/hub/service.py has changed"


def test_the_record_holds_no_secret(deployed: Deployed) -> None:
    text = (deployed.paths.root / "programs" / "platform.json").read_text()
    assert "secret hub_password" in text
    assert not [value for value in deployed.context.secrets.known().values() if value in text]


def test_status_previews_what_up_would_run(deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> None:
    """During a run, and before the first, there is nothing to compare with; `up` itself is not an input."""
    previewed: list[str] = []

    def preview(program: str, *_: object, **__: object) -> list[dict[str, Any]]:
        previewed.append(program)
        return []

    monkeypatch.setattr("strata.drift.programs.preview_steps", preview)

    def look() -> list[str]:
        previewed.clear()
        for program in ("cloud", "platform"):
            assert program_drift(SiteContext.load(deployed.context.site_file), program) == []
        return previewed

    with tagged(deployed.paths):
        for program in ("cloud", "platform"):
            ProgramState(deployed.context, program, Silent()).remember()
    assert look() == []
    deployed.releases[1]["revision"] = "2"
    assert look() == ["platform"]
    ProgramState(deployed.context, "cloud", Silent()).invalidate()
    assert look() == ["cloud", "platform"]


def test_plan_previews_what_up_would_run(deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that `up` would skip, and one whose preview finds nothing, read alike."""
    answer = [PulumiResult(1, 2, 3, 9, 1.0, {})]
    monkeypatch.setattr("strata.engine.changes.difference.preview", lambda *_, **__: answer[-1])

    def plan() -> list[str]:
        console = Console(file=StringIO())
        context = SiteContext.load(deployed.context.site_file)
        show_difference(context, lifecycle_of(context), console, list(Layer))
        assert isinstance(console.file, StringIO)
        return console.file.getvalue().strip().splitlines()[1:]

    nothing, previewed = "no change", "1 to create, 2 to change, 3 to delete, 9 unchanged"
    assert plan() == [f"cloud: {nothing}", f"platform: {nothing}"]
    deployed.releases[1]["revision"] = "2"
    assert plan() == [f"cloud: {nothing}", f"platform: {previewed}"]
    ProgramState(deployed.context, "cloud", Silent()).invalidate()
    assert plan() == [f"cloud: {previewed}", f"platform: {previewed}"]
    answer.append(PulumiResult(0, 0, 0, 9, 1.0, {}))
    assert plan() == [f"cloud: {nothing}", f"platform: {nothing}"]


def test_the_steps_skip_and_thorough_does_not(deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A skipped program's objects are compared all the same."""
    calls: list[str] = []

    def note(call: str, result: Any) -> Callable[..., Any]:
        def noted(*_: object) -> Any:
            calls.append(call)
            return result

        return noted

    def up(program: str, *_: object, **__: object) -> PulumiResult:
        calls.append(program)
        return PulumiResult(0, 0, 0, 9, 1.0, {"instances": {}, "networks": {}})

    monkeypatch.setattr("strata.stacks.pulumi.up", up)
    monkeypatch.setattr(up_steps, "repair_releases", note("objects", []))
    monkeypatch.setattr(up_steps, "remove_secrets", note("Secrets", []))
    monkeypatch.setattr(up_steps, "prepare_cloud", lambda *_: 0)
    # before the program, which would take what a refresh finds for desired
    monkeypatch.setattr(up_steps, "repair_objects", note("repair", ["port worker-1: repaired"]))
    monkeypatch.setattr(up_steps, "wait_for_services", note("wait", None))
    lifecycle = lifecycle_of(deployed.context)
    monkeypatch.setattr(type(lifecycle), "after_cloud", note("after", 0))
    platform = up_steps.platform_program_step(deployed.context)(Silent())
    cloud = up_steps.cloud_program_step(deployed.context, lifecycle, Approval())(Silent())
    assert calls == ["objects", "Secrets", "repair", "after"]
    assert "skipped: no change, no drift" in platform.detail
    assert "skipped: no change, no drift; port worker-1: repaired" in cloud.detail
    assert cloud.changed == 1
    calls.clear()
    up_steps.platform_program_step(deployed.context, thorough=True)(Silent())
    up_steps.cloud_program_step(deployed.context, lifecycle, Approval(), thorough=True)(Silent())
    assert calls == ["platform", "objects", "Secrets", "repair", "cloud", "after"]
    calls.clear()
    deployed.edit("versions.yaml")
    assert "run because: versions.yaml has changed" in up_steps.platform_program_step(deployed.context)(Silent()).detail
    assert calls[0] == "platform"


AUDITED = """
import json, os, sys
opened, listed, on = set(), set(), [True]
def hook(event, arguments):
    if on and event == "open" and isinstance(arguments[0], (str, bytes)) and not (arguments[2] or 0) & os.O_WRONLY:
        opened.add(os.path.realpath(os.fsdecode(arguments[0])))
    elif on and event in ("os.listdir", "os.scandir") and isinstance(arguments[0], (str, bytes)):
        listed.add(os.path.realpath(os.fsdecode(arguments[0])))
sys.addaudithook(hook)
sys.path.insert(0, os.getcwd())
from tests.unit.cloud.recorder import Recorder, run_program
run_program(sys.argv[1], "lab", Recorder())
on.clear()
json.dump({"opened": sorted(opened), "listed": sorted(listed - {os.path.realpath(p) for p in sys.path})}, sys.stdout)
"""


@pytest.mark.parametrize("program", ["cloud", "platform"])
def test_a_program_reads_nothing_else(state_directory: Path, program: Any) -> None:
    """Every file that the real program opens in the repository, the site's state and the cache is among its inputs."""
    context = SiteContext.load(find_site("lab"))
    paths = context.paths.create()
    paths.ssh_key.with_suffix(".pub").write_text("ssh-ed25519 AAAA test\n")
    paths.kubeconfig.write_text("{}\n")
    auth = {"auth_url": "http://192.0.2.1:5000/v3", "username": "admin", "password": "p", "project_name": "admin"}
    paths.clouds_file.write_text(json.dumps({"clouds": {"lab": {"auth": auth}, "lab-platform": {"auth": auth}}}))
    cloud = outputs(context.site)
    assert cloud is not None
    cloud.save(paths)
    IMAGES.save(paths)
    context.secrets.ensure_ca()
    run = Run(program, context.site, paths, Silent(), context.site_file)
    done = subprocess.run(
        [sys.executable, "-c", AUDITED, program],
        cwd=REPOSITORY,
        env=tools_environment() | run.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    names = {**inputs.given(run), **inputs.written(run)}
    known = {os.path.realpath(REPOSITORY / name) for name in names}
    # compared by value
    known |= {os.path.realpath(file) for file in (paths.passphrase_file, *paths.root.glob("*secrets*"))}
    roots = [os.path.realpath(root) for root in (REPOSITORY, paths.root, paths.root.parent)]
    outside = [os.path.realpath(root) for root in (sys.prefix, REPOSITORY / "tests", REPOSITORY / ".git")]

    def ours(path: str) -> bool:
        below = any(path.startswith(root + os.sep) for root in roots)
        return below and not any(path.startswith(root) for root in outside) and "__pycache__" not in path

    files = {path for path in seen["opened"] if ours(path)}
    assert len(files) > 2
    assert {path for path in files - known if not path.endswith((".partial", ".secrets.lock"))} == set()
    folders = {str(parent) for path in known for parent in Path(path).parents}
    assert {path for path in seen["listed"] if ours(path)} - folders == set()
