"""Pod images are built by the real podman: from the base that they name, with what package registries have."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strata.access.podman import build_image, podman
from strata.images.build import ImageSource, build
from strata.images.filesystem_build import ensure_pod_bases
from strata.images.pod_images import folder_image
from strata.images.root_filesystem import PodBase
from strata.progress import Silent

from .faulty import Answer, Server, running

CLIENT = """
from configparser import ConfigParser
from urllib.request import urlopen

pip = ConfigParser()
pip.read("/etc/pip.conf")
print(urlopen(pip["global"]["index-url"]).read().decode())
"""


@pytest.fixture
def built(tmp_path: Path) -> Iterator[Callable[[ImageSource], Path]]:
    """Builds an image as `strata up` does; returns a folder with its /result and /etc/pip.conf."""
    if shutil.which("podman") is None or os.geteuid() != 0:
        pytest.skip("podman as root is what the lab has")
    reference = f"localhost/strata-test/built:{uuid.uuid4().hex[:12]}"

    def files(source: ImageSource) -> Path:
        target = tmp_path / "files"
        target.mkdir(exist_ok=True)
        build(source, reference)
        container = podman("create", reference, "none").strip()
        try:
            podman("cp", f"{container}:/result", str(target))
            if source.network:
                podman("cp", f"{container}:/etc/pip.conf", str(target))
        finally:
            podman("rm", container)
        return target

    yield files
    podman("image", "rm", "--force", reference)


def test_an_image_starts_from_the_base_that_it_names(built: Callable[[ImageSource], Path], tmp_path: Path) -> None:
    pod_bases = {}
    try:
        for release in ("12", "13"):
            (tmp_path / "result").write_text(f"base {release}")
            reference = f"localhost/strata-test/base-{release}:{uuid.uuid4().hex[:12]}"
            build_image(f"--tag={reference}", "--file=-", str(tmp_path), stdin=b"FROM scratch\nCOPY result /\n")
            pod_bases[release] = PodBase(reference, release)
        stages = (
            "ARG DEBIAN_12\nARG DEBIAN_13\nFROM ${DEBIAN_12} AS one\nFROM ${DEBIAN_13}\nCOPY --from=one /result /\n"
        )
        for text, expected in (
            ("ARG DEBIAN_12\nFROM ${DEBIAN_12}\n", "base 12"),
            ("ARG DEBIAN_13\nFROM ${DEBIAN_13}\n", "base 13"),
            (stages, "base 12"),
        ):
            folder = tmp_path / "folder"
            folder.mkdir(exist_ok=True)
            (folder / "Containerfile").write_text(text)
            image = built(folder_image("one", folder, {}, pod_bases))
            assert (image / "result").read_text() == expected
    finally:
        for base in pod_bases.values():
            podman("image", "rm", base.reference)


@pytest.mark.nightly
def test_a_build_installs_packages(
    built: Callable[[ImageSource], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the archive that the base is made from, and from a registry on the host's loopback interface."""
    (tmp_path / "client.py").write_text(CLIENT)
    (tmp_path / "Containerfile").write_text(
        "ARG DEBIAN_12\nFROM ${DEBIAN_12}\nCOPY client.py /\n"
        "RUN apt-get update && apt-get install --yes hello && rm -rf /var/lib/apt/lists/*\n"
        "RUN hello > /result && python3 client.py >> /result\n"
    )
    with running(Server(lambda *_: Answer(200, b"from the mirror"))) as mirror:
        monkeypatch.setenv("PIP_INDEX_URL", mirror.url)
        image = built(folder_image("one", tmp_path, {}, ensure_pod_bases(["12"], Silent())))
    assert (image / "result").read_text().splitlines() == ["Hello, world!", "from the mirror"]
    assert (image / "pip.conf").read_text() == "", "a mirror's URL may hold a password"
