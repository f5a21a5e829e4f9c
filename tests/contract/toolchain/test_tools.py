"""The tools that were built or downloaded are what versions.yaml states."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from strata.site.paths import REPOSITORY
from strata.toolchain import cache, tools_environment
from strata.toolchain.versions import load_versions

VERSIONS = load_versions()
BINARIES = [
    (name, component, binary)
    for component in VERSIONS.components.values()
    for name, binary in component.binaries.items()
]
TOLD = [(name, component, binary.version_command) for name, component, binary in BINARIES if binary.version_command]


def there(name: str) -> cache.Tool:
    """The tool, or a skip when this machine has not got it."""
    component = VERSIONS.components[VERSIONS.tools[name].component]
    tool = cache.find(name, component)
    if tool is None and component.substitute:
        pytest.skip(f"{name} is not available here, {component.substitute} takes its place")
    if tool is None and component.on_demand:
        pytest.skip(f"{name} is not in the cache yet; a benchmark or another test gets it")
    if tool is None:
        pytest.skip(f"{name} is not in the cache yet; scripts/lab up gets it")
    return tool


@pytest.mark.parametrize(("name", "component", "command"), TOLD, ids=[name for name, *_ in TOLD])
def test_shows_the_pinned_version(name: str, component: object, command: tuple[str, ...]) -> None:
    tool = there(name)
    done = subprocess.run(
        [tool.path, *command], capture_output=True, text=True, check=False, timeout=180, env=tools_environment()
    )
    assert done.returncode == 0, done.stderr
    assert tool.version in done.stdout


@pytest.mark.parametrize("name", [name for name, *_ in BINARIES])
def test_is_the_file_that_was_recorded(name: str) -> None:
    tool = there(name)
    assert cache.file_digest(tool.path) == tool.sha256


@pytest.mark.parametrize("name", [name for name, component, _ in BINARIES if component.build])
def test_was_built_without_cgo_and_from_no_local_path(name: str) -> None:
    tool = there(name)
    if tool.source is not cache.Source.BUILD:
        pytest.skip(f"{name} came from the {tool.source}, not from a build of ours")
    if (command := shutil.which("go")) is None:
        pytest.skip("there is no go on PATH to read the build information")
    said = subprocess.run([command, "version", "-m", tool.path], capture_output=True, text=True, check=True).stdout
    assert "CGO_ENABLED=0" in said
    assert "-trimpath=true" in said
    assert "vcs.revision" not in said
    assert str(REPOSITORY) not in said


def test_pulumi_runs_a_python_program_with_the_plugins_installed_by_us(tmp_path: Path) -> None:
    """No plugin is warned of or downloaded, the program runs in this Python, and the OpenStack plugin answers."""
    for name in ("pulumi", "pulumi-language-python", "pulumi-resource-openstack"):
        there(name)
    (tmp_path / "Pulumi.yaml").write_text("name: contract\nruntime: python\n")
    (tmp_path / "__main__.py").write_text(
        "import sys, pulumi, pulumi_openstack\n"
        "pulumi_openstack.Provider('cloud', auth_url='http://127.0.0.1:9/v3', user_name='u', password='p',\n"
        "    tenant_name='t', domain_name='Default', region='r')\n"
        "pulumi.export('python', sys.executable)\n"
        "if pulumi.Config().get_bool('fail'):\n"
        "    raise pulumi.RunError('told to fail')\n"
    )
    environment = tools_environment() | {
        "PULUMI_BACKEND_URL": f"file://{tmp_path}",
        "PULUMI_CONFIG_PASSPHRASE": "contract",
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "",
    }

    def pulumi(*arguments: str, status: int = 0) -> str:
        done = subprocess.run(
            ["pulumi", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    pulumi("stack", "init", "contract")
    said = pulumi("up", "--yes", "--stack", "contract")
    assert "2 created" in said
    assert "warning" not in said
    python = pulumi("stack", "output", "python", "--stack", "contract").strip()
    assert Path(python).parent == Path(sys.executable).parent
    pulumi("config", "set", "fail", "true", "--stack", "contract")
    # pulumi.RunError is the program's own message: shown without a traceback
    said = pulumi("preview", "--stack", "contract", status=1)
    assert "told to fail" in said
    assert "Traceback" not in said
    pulumi("destroy", "--yes", "--stack", "contract")


def printed(*command: str | Path) -> dict[str, Any]:
    """The JSON object that a command prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_the_openstack_bridge_serves_what_the_python_package_asks_for() -> None:
    """Every class and function, field by field."""
    bridge = there("pulumi-resource-openstack")
    if bridge.source is not cache.Source.BUILD:
        pytest.skip("the official plugin is used here, not the bridge")
    component = VERSIONS.components["pulumi-resource-openstack"]
    assert component.build is not None
    specification = importlib.util.find_spec("pulumi_openstack")
    assert specification is not None
    assert specification.origin is not None
    facts = REPOSITORY / component.build.directory / "sdkfacts.py"
    asked = printed(sys.executable, facts, Path(specification.origin).parent)
    served = printed(bridge.path, "-fields")
    for kind in ("resources", "functions"):
        assert served["provider"][kind] == len(served[kind]) == len(asked[kind]), kind
        expected = {token: {"in": schema["in"], "out": schema["out"]} for token, schema in asked[kind].items()}
        assert [token for token in expected if served[kind].get(token) != expected[token]] == []
