"""The images of ours build with podman alone, from the context that the first lines of their Containerfile name."""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

from strata.site.paths import REPOSITORY

FOLDERS = sorted(p.parent for root in ("services", "lab/images") for p in (REPOSITORY / root).glob("*/Containerfile"))


def podman(*arguments: str) -> str:
    done = subprocess.run(["podman", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_builds_with_plain_podman(folder: Path, tmp_path: Path) -> None:
    if shutil.which("podman") is None:
        pytest.skip("podman is not installed")
    containerfile = folder / "Containerfile"
    command = f"podman build -f {containerfile.relative_to(REPOSITORY)} "
    documented = next(line for line in containerfile.read_text().splitlines() if command in line)
    if (folder / "go.mod").exists():
        (tmp_path / folder.name).write_text("the binary")
    else:
        shutil.copytree(folder / "src", tmp_path / "src")
        (tmp_path / "site-packages").mkdir()
    # nothing is run in a build, so that an empty base will do
    base = ("--build-arg", "BASE=scratch") if "--build-arg BASE=" in documented else ()
    name = f"localhost/strata-test/{folder.name}:{uuid.uuid4().hex[:12]}"
    podman("build", "-f", str(containerfile), *base, "--tag", name, str(tmp_path))
    try:
        (image,) = json.loads(podman("image", "inspect", name))
        assert image["Config"]["Entrypoint"]
    finally:
        podman("image", "rm", name)
