"""The images of ours build with podman alone, from the context that the first lines of their Containerfile name."""

from __future__ import annotations

import json
import re
import shutil
import uuid
from pathlib import Path

import pytest

from strata.access.podman import build_image, podman
from strata.images.containerfile import bases, runs_commands
from strata.site.paths import REPOSITORY

FILES = sorted(p for pattern in ("services/**/", "tools/pause/") for p in REPOSITORY.glob(f"{pattern}Containerfile"))


@pytest.mark.parametrize("containerfile", FILES, ids=lambda file: str(file.parent.relative_to(REPOSITORY)))
def test_builds_with_plain_podman(containerfile: Path, tmp_path: Path) -> None:
    text, folder = containerfile.read_text(), containerfile.parent
    command = f"podman build -f {containerfile.relative_to(REPOSITORY)} "
    documented = next(line for line in text.splitlines() if command in line)
    arguments = [f"--build-arg={name}=scratch" for name in dict.fromkeys(bases(text, containerfile))]
    assert re.findall(r"--build-arg (\w+)=IMAGE", documented) == [a.split("=")[1] for a in arguments]
    if runs_commands(text):
        return  # needs a real base; `strata up` builds it
    if shutil.which("podman") is None:
        pytest.skip("podman is not installed")
    if (folder / "go.mod").exists():
        (tmp_path / folder.name).write_text("the binary")
    else:
        shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
        (tmp_path / "site-packages").mkdir(exist_ok=True)
    name = f"localhost/strata-test/{folder.name}:{uuid.uuid4().hex[:12]}"
    build_image("-f", str(containerfile), *arguments, "--tag", name, str(tmp_path))
    try:
        (image,) = json.loads(podman("image", "inspect", name))
        assert image["Config"]["Entrypoint"]
    finally:
        podman("image", "rm", name)
