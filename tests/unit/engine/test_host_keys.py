"""Keys of hosts are learned before a playbook whose SSH takes no new ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.access import ssh
from strata.site.context import SiteContext

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEU2oTxwRBPdyyc8YYpNqvdOWWYxpZqzZzYMDRqwHNTv"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """File with the arguments of each `ssh`; ssh-keygen is the real one."""
    calls = tmp_path / "calls"
    calls.touch()
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {calls}\nexit 255\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return calls


def test_a_host_without_a_known_key_is_asked(context: SiteContext, asked: Path) -> None:
    ssh.add_known_hosts(context, "openstack")
    (call,) = asked.read_text().splitlines()
    assert "StrictHostKeyChecking=accept-new" in call
    assert f"UserKnownHostsFile={context.paths.known_hosts}" in call
    assert call.endswith("root@10.87.0.10 true")


def test_a_host_whose_key_is_known_is_left_alone(context: SiteContext, asked: Path) -> None:
    context.paths.known_hosts.write_text(f"10.87.0.10 {KEY}\n")
    ssh.add_known_hosts(context, "openstack")
    assert asked.read_text() == ""


def test_without_instances_there_is_no_one_to_ask(context: SiteContext, asked: Path) -> None:
    ssh.add_known_hosts(context, "cluster")
    assert asked.read_text() == ""
