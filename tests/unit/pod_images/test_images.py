"""Which images are built, pushed and named how, with a registry and a podman that only remember."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import UserError
from strata.images import build, pod_images
from strata.images.build import ImageSource, PythonPackages
from strata.images.registry_client import RegistryClient
from strata.progress import Progress, Silent
from strata.site.paths import REPOSITORY


class Registry(RegistryClient):
    """Remembers manifests by repository and tag."""

    def __init__(self) -> None:
        self.manifests: dict[tuple[str, str], str] = {}
        self.pushed: list[str] = []

    def write_credentials(self, directory: Path) -> None:
        (directory / "auth.json").write_text("for skopeo")

    def digest(self, repository: str, tag: str) -> str | None:
        return self.manifests.get((repository, tag))

    def tag(self, repository: str, digest: str, tag: str) -> bool:
        changed = self.manifests.get((repository, tag)) != digest
        self.manifests[(repository, tag)] = digest
        return changed


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    found = Registry()

    def push(layout: Path, repository: str, tag: str, registry: Registry, credentials: Path, progress: Progress) -> str:
        assert (credentials / "auth.json").read_text() == "for skopeo"
        digest = f"sha256:{tag}"
        registry.manifests[(repository, tag)] = digest
        registry.pushed.append(str(layout))
        return digest

    monkeypatch.setattr(pod_images, "push", push)
    monkeypatch.setattr(pod_images, "ensure_oci_layout", lambda _source, content, _progress: Path(content))
    return found


@pytest.fixture
def binaries(tmp_path: Path) -> dict[str, Path]:
    names = (*pod_images.STATIC_PODS, "kube-proxy", "coredns", "pause", "gpu-device-plugin")
    for name in names:
        (tmp_path / name).write_text(name)
        (tmp_path / name).chmod(0o755)
    return {name: tmp_path / name for name in names}


def kubernetes(binaries: dict[str, Path]) -> list[ImageSource]:
    versions = dict.fromkeys(binaries, "v1.35.4")
    return [
        *pod_images.kubernetes_images(binaries, versions, "localhost/base"),
        pod_images.service_image(REPOSITORY / "lab" / "images" / "pause", binaries, "localhost/base", ("3.10.1",)),
    ]


def test_a_second_push_does_nothing(registry: Registry, binaries: dict[str, Path]) -> None:
    sources = pod_images.as_one_set(kubernetes(binaries), "base-1")
    first = pod_images.push_images(sources, "base-1", registry, Silent())
    assert len(registry.pushed) == len(sources)
    assert pod_images.push_images(sources, "base-1", registry, Silent()) == first
    assert len(registry.pushed) == len(sources)


def test_kubeadms_tags_point_to_what_was_pushed(registry: Registry, binaries: dict[str, Path]) -> None:
    sources = pod_images.as_one_set(kubernetes(binaries), "base-1")
    digests = pod_images.push_images(sources, "base-1", registry, Silent())
    for source in sources:
        for tag in source.tags:
            assert registry.digest(source.name, tag) == digests[source.name]


def test_other_content_is_another_folder_for_all_of_kubeadms_images(binaries: dict[str, Path]) -> None:
    before = {s.name.rpartition("/")[0] for s in pod_images.as_one_set(kubernetes(binaries), "base-1")}
    same = {s.name.rpartition("/")[0] for s in pod_images.as_one_set(kubernetes(binaries), "base-1")}
    other_base = {s.name.rpartition("/")[0] for s in pod_images.as_one_set(kubernetes(binaries), "base-2")}
    binaries["coredns"].write_text("another coredns")
    other_binary = {s.name.rpartition("/")[0] for s in pod_images.as_one_set(kubernetes(binaries), "base-1")}
    assert len(before) == 1
    assert before == same
    assert len(before | other_base | other_binary) == 3


def test_our_images_stay_where_they_are(binaries: dict[str, Path]) -> None:
    source = pod_images.service_image(REPOSITORY / "services" / "gpu-device-plugin", binaries, "localhost/base")
    assert pod_images.as_one_set([source], "base-1")[0].name == "strata/gpu-device-plugin"


def test_content_names_every_input(tmp_path: Path) -> None:
    directory = tmp_path / "service"
    (directory / "src").mkdir(parents=True)
    (directory / "src" / "a.py").write_text("1")
    (directory / "uv.lock").write_text("lock")
    source = ImageSource("x", "FROM scratch", {"src": directory / "src"}, packages=PythonPackages(directory, "3.11"))
    hashes = [source.content_hash(None)]
    (directory / "src" / "a.py").write_text("22")
    hashes.append(source.content_hash(None))
    (directory / "src" / "a.py").rename(directory / "src" / "b.py")
    hashes.append(source.content_hash(None))
    (directory / "src" / "b.py").chmod(0o755)
    hashes.append(source.content_hash(None))
    (directory / "uv.lock").write_text("another lock")
    hashes.append(source.content_hash(None))
    hashes.append(source.content_hash("base"))
    assert len(set(hashes)) == len(hashes)
    (directory / "src" / "__pycache__").mkdir()
    (directory / "src" / "__pycache__" / "b.pyc").write_text("")
    assert source.content_hash("base") == hashes[-1]


def test_a_missing_input_is_named(tmp_path: Path) -> None:
    source = ImageSource("x", "FROM scratch", {"kubelet": tmp_path / "kubelet"})
    with pytest.raises(UserError, match="kubelet is missing"):
        source.content_hash(None)


def test_a_broken_cache_of_digests_counts_as_empty(tmp_path: Path) -> None:
    cache = tmp_path / "digests.tsv"
    build.load_digests(cache)
    cache.write_text("no\ttab separated\nfile\n")
    build.load_digests(cache)


def test_every_service_with_a_containerfile_makes_an_image(binaries: dict[str, Path]) -> None:
    directories = sorted(
        p.parent for root in ("services", "lab/images") for p in (REPOSITORY / root).glob("*/Containerfile")
    )
    assert {"gpu-device-plugin", "pause"} <= {d.name for d in directories}
    for directory in directories:
        image = pod_images.service_image(directory, binaries, "localhost/base")
        assert image.name.endswith(f"/{directory.name}")
        assert (image.base is None) == ("FROM scratch" in image.containerfile)
        assert "RUN " not in image.containerfile.replace("\\\n", ""), "a build has no network"
