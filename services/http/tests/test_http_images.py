"""Images of services that use the package, from the build context that podman would get."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from strata.images import build, pod_images
from strata.images.python_packages import PythonPackages
from strata.images.root_filesystem import PodBase
from strata.site.paths import REPOSITORY

BASES = {"12": PodBase("localhost/base", "content")}
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """`context("ml-hub")` → the build context of its image, with dependencies for the Python that runs the tests."""

    def of(service: str) -> Path:
        folder = REPOSITORY / "services" / service
        kept = tmp_path / "context"
        monkeypatch.setattr(build, "remove_cut_off_builds", list)
        monkeypatch.setattr(build, "build_image", lambda *arguments: shutil.copytree(arguments[-1], kept))
        source = pod_images.folder_image(service, folder, {}, BASES)
        build.build(replace(source, packages=PythonPackages(folder, VERSION)), "localhost/test")
        return kept

    return of


@pytest.mark.parametrize(
    ("service", "modules"),
    [
        ("authenticator", "authenticator.__main__, authenticator.app"),
        ("ml-hub", "ml_hub.__main__, ml_hub.app"),
        ("accounting", "accounting.rest"),
    ],
)
def test_an_image_has_the_package_and_what_it_needs(context: Callable[[str], Path], service: str, modules: str) -> None:
    folder = context(service)
    # without the environment of the tests
    program = f"import {modules}, strata_http; print(strata_http.__file__)"
    environment = {"PYTHONPATH": f"{folder / 'src'}:{folder / 'site-packages'}"}
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == str(folder / "src" / "strata_http" / "__init__.py"), done.stderr
