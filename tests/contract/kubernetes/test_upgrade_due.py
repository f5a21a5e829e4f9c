"""Which nodes the role kubernetes_common takes for nodes of another version, asked of the real Ansible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from strata.site.paths import REPOSITORY
from strata_bench.local_playbook import run_locally

NODE = "worker-1"
VARIABLES = REPOSITORY / "ansible" / "roles" / "kubernetes_common" / "vars" / "main.yml"
KUBELET = {"stdout": "Kubernetes v1.35.4"}


def nodes(version: str, name: str = NODE) -> dict[str, str]:
    """What kubectl prints of one node."""
    item = {"metadata": {"name": name}, "status": {"nodeInfo": {"kubeletVersion": version}}}
    return {"stdout": json.dumps({"items": [item]})}


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "not joined": ({"skipped": True}, {"skipped": True}, []),
    "no kubelet": ({"stdout": "", "rc": 2}, nodes("v1.35.4"), []),
    "the API does not respond": (KUBELET, {"stdout": "", "rc": 1}, ["1.35.4"]),
    "no kubectl": (KUBELET, {"rc": 2}, ["1.35.4"]),
    "not in the cluster": (KUBELET, nodes("v1.35.4", "worker-2"), ["1.35.4"]),
    "as installed": (KUBELET, nodes("v1.35.4"), ["1.35.4", "1.35.4"]),
    "not restarted": (KUBELET, nodes("v1.34.9"), ["1.35.4", "1.34.9"]),
}


def test_versions_of_a_node(tmp_path: Path) -> None:
    """Where the API does not respond, the installed kubelet counts, so that `up` can repair the control plane."""
    tasks = [
        {
            "name": name,
            "ansible.builtin.assert": {"that": "_kubernetes_common_versions == expected"},
            "vars": {
                "__kubernetes_common_kubelet": kubelet,
                "__kubernetes_common_nodes": nodes,
                "expected": expected,
            },
        }
        for name, (kubelet, nodes, expected) in CASES.items()
    ]
    play = {"hosts": NODE, "gather_facts": False, "vars_files": [str(VARIABLES)], "tasks": tasks}
    done = run_locally(tmp_path / "play.yml", NODE, play, {})
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
