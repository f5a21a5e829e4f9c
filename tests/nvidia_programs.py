"""NVIDIA's device plugin and GPU feature discovery of the pinned version, with the lab's libnvidia-ml.so.1."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from strata.models.accelerator_catalogue import CATALOGUE
from strata_lab import nvml
from strata_lab.paths import NVIDIA

PLUGIN, FEATURE_DISCOVERY = "nvidia-device-plugin", "gpu-feature-discovery"


def build(into: Path) -> None:
    """Builds all three into a directory; skips where this machine cannot.

    With an empty Go cache it takes about 180 seconds of CPU time.
    """
    for program in ("go", "cc", "nm"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} on PATH, which building NVIDIA's device plugin needs")
    packages = [f"github.com/NVIDIA/k8s-device-plugin/cmd/{name}" for name in (PLUGIN, FEATURE_DISCOVERY)]
    environment = {**os.environ, "CGO_ENABLED": "1", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false"}
    command = ["go", "build", "-ldflags=-s -w", "-o", f"{into}{os.sep}", *packages]
    subprocess.run(command, cwd=NVIDIA, env=environment, check=True)
    nvml.build(CATALOGUE.values(), [into / PLUGIN, into / FEATURE_DISCOVERY], into)
