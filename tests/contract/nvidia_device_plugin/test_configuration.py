"""The configuration of each pool against the parser of NVIDIA's device plugin.

`recorded.json` is what the parser of the pinned version answers (`parser.go`, a program of 30 lines around it).
Building it takes 60 CPU seconds without Go's cache, so only the long tests do that; they fail if the record is stale.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from strata.models.site import Site
from strata.platform.nvidia_device_plugin import configurations
from strata.toolchain import load_versions
from strata_lab.paths import NVIDIA

HERE = Path(__file__).parent
RECORD = HERE / "recorded.json"
SHARING: dict[str, dict[str, object]] = {
    "slices": {"time_slicing": 4},
    "mps": {"mps": 16},
    "instances": {"mig": "1g.5gb"},
    "instance-slices": {"mig": "3g.20gb", "time_slicing": 2},
    "whole": {},
}


def rendered() -> dict[str, Any]:
    pools = [{"name": name, "nodes": [f"{name}-1"], "sharing": sharing} for name, sharing in SHARING.items()]
    cluster = {"name": "metal", "datastore": "etcd", "gpu_nodes": {"pools": pools}}
    content = {"name": "metal", "domain": "example.org", "access": {"ssh": ["192.0.2.1/32"]}, "cluster": cluster}
    return configurations(Site.model_validate(content))


def test_they_are_those_that_the_parser_has_read() -> None:
    assert {name: entry["configuration"] for name, entry in json.loads(RECORD.read_text()).items()} == rendered()


def test_the_parser_understood_what_the_site_file_has() -> None:
    read = {name: entry["read"] for name, entry in json.loads(RECORD.read_text()).items()}
    assert set(read) == {"default", *SHARING}
    for name, parsed in read.items():
        sharing = SHARING.get(name, {})
        shared = [resource["replicas"] for resource in parsed["shared"].get("resources", [])]
        strategy = "mps" if "mps" in sharing else "time-slicing" if "time_slicing" in sharing else "none"
        assert parsed["strategy"] == strategy
        assert shared == [sharing[key] for key in ("mps", "time_slicing") if key in sharing]
        assert parsed["shared"].get("failRequestsGreaterThanOne", False) == bool(shared)
        assert parsed["mig"] == ("single" if "mig" in sharing else "none")


def test_the_parser_is_that_of_the_pinned_chart() -> None:
    version = load_versions().charts["nvidia-device-plugin"].version
    assert f"github.com/NVIDIA/k8s-device-plugin v{version}\n" in (NVIDIA / "go.mod").read_text()


@pytest.mark.nightly  # builds the parser
def test_the_real_parser_reads_them_as_recorded(tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("no Go on PATH")
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
    parser = tmp_path / "parser"
    program = str(HERE / "parser.go")
    subprocess.run(["go", "build", "-o", str(parser), program], cwd=NVIDIA, env=environment, check=True)

    def read(name: str, configuration: object) -> subprocess.CompletedProcess[str]:
        file = tmp_path / f"{name}.yaml"
        file.write_text(json.dumps(configuration))
        return subprocess.run([str(parser), "--config-file", str(file)], capture_output=True, text=True, check=False)

    parsed = {
        name: {"configuration": configuration, "read": json.loads(read(name, configuration).stdout)}
        for name, configuration in rendered().items()
    }
    if os.environ.get("STRATA_UPDATE_SNAPSHOTS"):
        RECORD.write_text(json.dumps(parsed, indent=2) + "\n")
    assert parsed == json.loads(RECORD.read_text())
    once = {"version": "v1", "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 1}]}}}
    assert "replicas must be >= 2" in read("once", once).stderr
