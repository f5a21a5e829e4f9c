"""What Kubespray left on a node, as drift compares it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from strata.access.ssh import Unreachable
from strata.drift import baseline as records
from strata.drift.hosts import compare
from strata.errors import UserError
from strata.installers.kubespray import baseline
from strata.layers import Layer
from strata.site.context import SiteContext
from strata.site_file.inventories import find_site

FOUND = {"digest": "sha256:aa", "mode": "0600", "owner": "root", "group": "root"}
CONFIG = "/etc/containerd/config.toml"
RUNNING = {"ActiveState": "active", "UnitFileState": "enabled", "ConditionResult": "yes", "LoadState": "loaded"}
ABSENT = {**RUNNING, "ActiveState": "inactive", "LoadState": "not-found"}


@pytest.fixture
def nautilus(state_directory: Path, monkeypatch: pytest.MonkeyPatch) -> SiteContext:
    monkeypatch.setattr(
        baseline, "run_ssh", lambda *_: subprocess.CompletedProcess([], 0, f"{CONFIG}\n/etc/gone.yaml\n", "")
    )
    answer = {
        "files": {CONFIG: FOUND, "/etc/gone.yaml": None},
        "units": {"containerd": RUNNING, "kubelet": RUNNING, "etcd": ABSENT},
    }
    monkeypatch.setattr(baseline, "ask", lambda *_: answer)
    return SiteContext.load(find_site("nautilus"))


def test_a_change_of_what_kubespray_left_is_drift(nautilus: SiteContext) -> None:
    baseline.record_nodes(nautilus)
    recorded = records.load(nautilus.paths, "kubespray", "calit2-dtn-1")
    assert recorded is not None
    assert (set(recorded.files), set(recorded.units)) == ({CONFIG}, {"containerd", "kubelet"})
    same = {"files": {CONFIG: FOUND}, "units": {"containerd": RUNNING, "kubelet": RUNNING}}
    assert compare(Layer.CLUSTER, "calit2-dtn-1", recorded, same) == []
    other = json.loads(json.dumps(same))
    other["files"][CONFIG]["digest"] = "sha256:bb"
    other["units"]["kubelet"]["ActiveState"] = "failed"
    drift = [
        (difference.object, difference.found) for difference in compare(Layer.CLUSTER, "calit2-dtn-1", recorded, other)
    ]
    assert drift == [(f"calit2-dtn-1: {CONFIG}", "sha256:bb"), ("calit2-dtn-1: kubelet", "failed")]
    baseline.forget_nodes(nautilus)
    assert records.load(nautilus.paths, "kubespray", "calit2-dtn-1") is None


def test_a_node_that_does_not_respond_is_named(nautilus: SiteContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: object) -> dict[str, object]:
        raise Unreachable("no answer within 20 s")

    monkeypatch.setattr(baseline, "ask", silent)
    with pytest.raises(UserError, match="could not be read: calit2-control-1: no answer within 20 s; "):
        baseline.record_nodes(nautilus)
