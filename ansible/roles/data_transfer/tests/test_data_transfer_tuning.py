"""TCP settings of transfer nodes, by the speed of their interfaces, from the role's own variables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strata.roles import DIRECTORY
from strata_bench.local_playbook import run_locally

VARIABLES = DIRECTORY / "data_transfer" / "vars" / "main.yml"


@pytest.mark.parametrize(
    ("interfaces", "largest", "buffer", "probing"),
    [
        (["-1 1500", "100000 9000"], 536870912, 268435456, True),
        (["10000 1500", "1000 1500"], 268435456, 134217728, False),
        (["-1 1500"], 67108864, 33554432, False),
        ([], 67108864, 33554432, False),
    ],
)
def test_buffers_follow_the_fastest_interface(
    tmp_path: Path, interfaces: list[str], largest: int, buffer: int, probing: bool
) -> None:
    written = tmp_path / "settings.json"
    task = {"ansible.builtin.copy": {"dest": str(written), "content": "{{ _data_transfer_settings | to_json }}"}}
    play = {"hosts": "all", "gather_facts": False, "vars_files": [str(VARIABLES)], "tasks": [task]}
    variables = {"__data_transfer_interfaces": {"stdout_lines": interfaces}}
    done = run_locally(tmp_path / "play.json", "dtn", play, variables)
    assert done.returncode == 0, done.stdout
    settings = json.loads(written.read_text())
    assert settings.pop("net.ipv4.tcp_mtu_probing", None) == (1 if probing else None)
    assert settings == {
        "net.core.rmem_max": largest,
        "net.core.wmem_max": largest,
        "net.ipv4.tcp_rmem": f"4096 87380 {buffer}",
        "net.ipv4.tcp_wmem": f"4096 65536 {buffer}",
        "net.ipv4.tcp_no_metrics_save": 1,
        "net.core.default_qdisc": "fq",
    }
