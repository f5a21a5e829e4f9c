"""Where the site's secrets are found: nowhere but in the encrypted store and the files that must hold them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from strata.engine.context import SiteContext
from strata.paths import REPOSITORY


@pytest.fixture(scope="module")
def needles(context: SiteContext) -> dict[str, str]:
    """Name and a distinctive piece of each secret."""
    found = dict(context.secrets.known())
    assert len(found) >= 5
    # of a PEM text the middle line; its frame is the same for all
    return {n: v.splitlines()[len(v.splitlines()) // 2] if "\n" in v else v for n, v in found.items()}


def leaks(text: str, needles: dict[str, str]) -> list[str]:
    return [name for name, value in needles.items() if value in text]


def test_logs_hold_no_secret(context: SiteContext, needles: dict[str, str]) -> None:
    """No log of Strata's own holds a secret in the clear."""
    files = [f for f in context.paths.logs.rglob("*") if f.is_file()]
    assert files
    assert {f.name: leaks(f.read_text(errors="replace"), needles) for f in files} == {f.name: [] for f in files}


def test_pulumi_state_holds_no_secret(context: SiteContext, needles: dict[str, str]) -> None:
    """Pulumi's checkpoints hold secrets encrypted only."""
    files = list((context.paths.pulumi / ".pulumi").rglob("*.json*"))
    assert any("stacks" in f.parts for f in files)
    assert {f.name: leaks(f.read_text(errors="replace"), needles) for f in files} == {f.name: [] for f in files}


def test_no_process_has_a_secret_in_its_arguments(needles: dict[str, str]) -> None:
    """No process on this machine (instances included) has a secret in argv."""
    found: dict[str, list[str]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if names := leaks(arguments, needles):
            found[arguments.split("\0")[0]] = names
    assert found == {}


def test_repository_holds_no_secret(needles: dict[str, str]) -> None:
    """No tracked file holds a secret."""
    for name, value in needles.items():
        done = subprocess.run(["git", "grep", "-qF", "-e", value], cwd=REPOSITORY, check=False)
        assert done.returncode == 1, name


def test_config_maps_hold_no_secret(kubectl: object, needles: dict[str, str]) -> None:
    """No ConfigMap and no pod specification of the cluster holds a secret."""
    assert callable(kubectl)
    text = kubectl("get", "configmaps,pods", "--all-namespaces", "-o", "yaml")
    assert leaks(text, needles) == []


def test_private_files_are_private(context: SiteContext) -> None:
    """Every file of the state directory is readable by its owner only."""
    exposed = [
        f
        for f in context.paths.root.iterdir()
        if f.is_file() and f.stat().st_mode & 0o077 and f.suffix not in (".pub", ".pem")
    ]
    private = {
        context.paths.secrets_file,
        context.paths.passphrase_file,
        context.paths.ssh_key,
        context.paths.kubeconfig,
    }
    assert not private & set(exposed)
    assert context.paths.root.stat().st_mode & 0o077 == 0
