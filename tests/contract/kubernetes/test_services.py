"""The tests of our Go services, run by Go itself."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from strata.site.paths import REPOSITORY


@pytest.mark.nightly
@pytest.mark.parametrize(
    "directory", ["tools/gpu-device-plugin", "tools/network-policies", "tools/pause", "lab/nfs-client"]
)
def test_go_vets_and_tests(directory: str) -> None:
    if shutil.which("go") is None:
        pytest.skip("no Go on PATH")
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
    for command in (["go", "vet", "./..."], ["go", "test", "./..."]):
        done = subprocess.run(
            command,
            cwd=REPOSITORY / directory,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
