"""The native tools work on the same files, with what `strata env` prints."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from strata.access.environment import site_environment
from strata.site.context import SiteContext
from strata.site.paths import REPOSITORY

from .commands import STRATA


@pytest.fixture(scope="module")
def environment(context: SiteContext) -> dict[str, str]:
    return {**os.environ, **site_environment(context)}


def run(environment: dict[str, str], *command: str, cwd: Path = REPOSITORY) -> str:
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_env_is_valid_shell(context: SiteContext) -> None:
    """`eval "$(strata env SITE)"` works in a POSIX shell."""
    script = f'eval "$({STRATA} env {context.site_file})" && echo "$OS_CLOUD" && command -v pulumi'
    lines = run(dict(os.environ), "sh", "-c", script).split()
    assert lines[0] == context.site.name
    assert lines[1].endswith("/pulumi")


@pytest.mark.parametrize("program", ["cloud", "platform"])
def test_pulumi_preview_by_hand_sees_no_change(context: SiteContext, environment: dict[str, str], program: str) -> None:
    """`pulumi preview -s SITE` in pulumi/<program> finds nothing to do."""
    command = ["pulumi", "preview", "-s", context.site.name, "--expect-no-changes", "--non-interactive"]
    assert "unchanged" in run(environment, *command, cwd=REPOSITORY / "pulumi" / program)


def test_openstack_lists_the_servers(context: SiteContext, environment: dict[str, str]) -> None:
    """`openstack server list` shows the site's instances."""
    assert context.site.cloud is not None
    listed = json.loads(run(environment, "openstack", "server", "list", "--all-projects", "-f", "json"))
    assert {i.name for i in context.site.cloud.instances} <= {s["Name"] for s in listed}


def test_kubectl_and_helm_find_the_cluster(environment: dict[str, str]) -> None:
    """`kubectl get nodes` and `helm list` answer."""
    assert json.loads(run(environment, "kubectl", "get", "nodes", "-o", "json"))["items"]
    assert json.loads(run(environment, "helm", "list", "--all-namespaces", "-o", "json"))


def test_inventory_shows_no_secret(context: SiteContext, environment: dict[str, str]) -> None:
    """`ansible-inventory --list` shows lookups, not values."""
    text = run(environment, "ansible-inventory", "-i", str(context.site_file), "--list")
    assert "strata_secret" in text
    assert [n for n, v in context.secrets.known().items() if v in text] == []
