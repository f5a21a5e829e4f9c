"""Which images are built, pushed and named how, with a registry and a podman that only remember."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strata.catalogue.discovery import services
from strata.catalogue.service import ServiceContext
from strata.errors import UserError
from strata.image_reference import ImageReference
from strata.images import build, pod_images
from strata.images.build import ImageSource
from strata.images.python_packages import PythonPackages, local_packages
from strata.images.registry_client import RegistryClient
from strata.images.root_filesystem import PodBase
from strata.progress import Progress, Silent
from strata.site.paths import REPOSITORY
from strata.site_file.loader import load_site

BASES = {release: PodBase(f"localhost/base-{release}", f"content {release}") for release in ("12", "13")}


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
    fake = Registry()

    def push(layout: Path, repository: str, tag: str, registry: Registry, credentials: Path, progress: Progress) -> str:
        assert (credentials / "auth.json").read_text() == "for skopeo"
        digest = f"sha256:{tag}"
        registry.manifests[(repository, tag)] = digest
        registry.pushed.append(str(layout))
        return digest

    monkeypatch.setattr(pod_images, "push", push)
    monkeypatch.setattr(pod_images, "ensure_oci_layout", lambda _source, content, _progress: Path(content))
    return fake


@pytest.fixture
def binaries(tmp_path: Path) -> dict[str, Path]:
    modules = (service.name for service in services() if (service.folder / "go.mod").exists())
    names = (*pod_images.STATIC_PODS, "kube-proxy", "coredns", "pause", "gpu-device-plugin", *modules)
    for name in names:
        (tmp_path / name).write_text(name)
        (tmp_path / name).chmod(0o755)
    return {name: tmp_path / name for name in names}


def kubernetes(binaries: dict[str, Path], base: PodBase = BASES["12"]) -> list[ImageSource]:
    versions = dict.fromkeys(binaries, "v1.35.4")
    return [
        *pod_images.kubernetes_images(binaries, versions, base),
        pod_images.folder_image("pause", REPOSITORY / "tools" / "pause", binaries, BASES, ("3.10.1",)),
    ]


def test_a_second_push_does_nothing(registry: Registry, binaries: dict[str, Path]) -> None:
    sources = pod_images.as_one_set(kubernetes(binaries))
    first = pod_images.push_images(sources, registry, Silent())
    assert len(registry.pushed) == len(sources)
    assert pod_images.push_images(sources, registry, Silent()) == first
    assert len(registry.pushed) == len(sources)


def test_kubeadms_tags_point_to_what_was_pushed(registry: Registry, binaries: dict[str, Path]) -> None:
    sources = pod_images.as_one_set(kubernetes(binaries))
    digests = pod_images.push_images(sources, registry, Silent())
    for source in sources:
        for tag in source.tags:
            assert registry.digest(source.name, tag) == digests[source.name]


def test_other_content_is_another_folder_for_all_of_kubeadms_images(binaries: dict[str, Path]) -> None:
    before = {s.name.rpartition("/")[0] for s in pod_images.as_one_set(kubernetes(binaries))}
    same = {s.name.rpartition("/")[0] for s in pod_images.as_one_set(kubernetes(binaries))}
    base = PodBase("localhost/base", "other content")
    other_base = {s.name.rpartition("/")[0] for s in pod_images.as_one_set(kubernetes(binaries, base))}
    binaries["coredns"].write_text("another coredns")
    other_binary = {s.name.rpartition("/")[0] for s in pod_images.as_one_set(kubernetes(binaries))}
    assert len(before) == 1
    assert before == same
    assert len(before | other_base | other_binary) == 3


def test_our_images_stay_where_they_are(binaries: dict[str, Path]) -> None:
    folder = REPOSITORY / "tools" / "gpu-device-plugin"
    source = pod_images.folder_image(folder.name, folder, binaries, BASES)
    assert pod_images.as_one_set([source])[0].name == "strata/gpu-device-plugin"


def test_content_names_every_input(tmp_path: Path) -> None:
    directory = tmp_path / "service"
    (directory / "src").mkdir(parents=True)
    (directory / "src" / "a.py").write_text("1")
    (directory / "uv.lock").write_text("lock")
    source = ImageSource("x", "FROM scratch", {"src": directory / "src"}, packages=PythonPackages(directory, "3.11"))
    hashes = [source.content_hash()]
    (directory / "src" / "a.py").write_text("22")
    hashes.append(source.content_hash())
    (directory / "src" / "a.py").rename(directory / "src" / "b.py")
    hashes.append(source.content_hash())
    (directory / "src" / "b.py").chmod(0o755)
    hashes.append(source.content_hash())
    (directory / "uv.lock").write_text("another lock")
    hashes.append(source.content_hash())
    for base in (PodBase("localhost/base", "1"), PodBase("localhost/base", "2")):
        source = replace(source, bases={"DEBIAN_12": base})
        hashes.append(source.content_hash())
    assert len(set(hashes)) == len(hashes)
    (directory / "src" / "__pycache__").mkdir()
    (directory / "src" / "__pycache__" / "b.pyc").write_text("")
    assert source.content_hash() == hashes[-1]


def test_a_missing_input_is_named(tmp_path: Path) -> None:
    source = ImageSource("x", "FROM scratch", {"kubelet": tmp_path / "kubelet"})
    with pytest.raises(UserError, match="kubelet is missing"):
        source.content_hash()


def test_a_broken_cache_of_digests_counts_as_empty(tmp_path: Path) -> None:
    cache = tmp_path / "digests.tsv"
    build.load_digests(cache)
    cache.write_text("no\ttab separated\nfile\n")
    build.load_digests(cache)


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / name.replace("__", "/")).parent.mkdir(parents=True, exist_ok=True)
        (folder / name.replace("__", "/")).write_text(text)
    return folder


def test_a_containerfile_chooses_its_bases(tmp_path: Path) -> None:
    text = "ARG DEBIAN_12\nARG DEBIAN_13\nFROM ${DEBIAN_13} AS build\nRUN make\nFROM --platform=linux $DEBIAN_12\n"
    image = pod_images.folder_image("one", write(tmp_path, Containerfile=text), {}, BASES)
    assert image.bases == {"DEBIAN_12": BASES["12"], "DEBIAN_13": BASES["13"]}
    assert image.network, "RUN may install packages"
    pod_image = pod_images.folder_image(
        "one", write(tmp_path, Containerfile="ARG DEBIAN_13\nFROM ${DEBIAN_13}\n"), {}, BASES
    )
    assert pod_image.bases == {"DEBIAN_13": BASES["13"]}
    assert not pod_image.network
    write(tmp_path, Containerfile="FROM scratch\nCOPY file /\n")
    assert not pod_images.folder_image("one", tmp_path, {}, {}).bases


def test_python_is_that_of_the_base(tmp_path: Path) -> None:
    (tmp_path / "uv.lock").write_text("")
    for release, python in (("12", "3.11"), ("13", "3.13")):
        text = f"FROM ${{DEBIAN_12}} AS build\nFROM ${{DEBIAN_{release}}}\n"
        image = pod_images.folder_image("one", write(tmp_path, Containerfile=text), {}, BASES)
        assert image.packages == PythonPackages(tmp_path, python)


LOCKED = """
[[package]]
name = "hub"
source = { editable = "." }
[[package]]
name = "strata-http"
source = { editable = "../http" }
[[package]]
name = "fastapi"
source = { registry = "https://index.example.org/simple" }
"""


def test_a_package_of_the_repository_is_built_into_the_images_that_use_it(tmp_path: Path) -> None:
    package = tmp_path / "http" / "src" / "strata_http"
    package.mkdir(parents=True)
    module = package / "__init__.py"
    module.write_text("1")
    text = "ARG DEBIAN_12\nFROM ${DEBIAN_12}\n"
    hub = write(tmp_path / "hub", Containerfile=text, src__main="")
    other = write(tmp_path / "other", Containerfile=text, src__main="")
    (hub / "uv.lock").write_text(LOCKED)
    (other / "uv.lock").write_text(LOCKED.replace("../http", "."))

    def hashes() -> list[str]:
        return [pod_images.folder_image(f.name, f, {}, BASES).content_hash() for f in (hub, other)]

    image = pod_images.folder_image("hub", hub, {}, BASES)
    assert image.files == {"src": hub / "src", "src/strata_http": package}
    before = hashes()
    module.write_text("2")
    after = hashes()
    assert after[0] != before[0]
    assert after[1] == before[1]


def test_packages_of_the_repository_are_those_of_the_lock() -> None:
    library = REPOSITORY / "services" / "http" / "src" / "strata_http"
    by_project = {p.parent.name: local_packages(p.parent) for p in REPOSITORY.glob("services/*/uv.lock")}
    assert by_project["accounting"] == by_project["ml-hub"] == {"strata_http": library}
    assert by_project["http"] == by_project["dask-gateway"] == {}


def test_an_unknown_base_is_named(tmp_path: Path) -> None:
    write(tmp_path, Containerfile="ARG BASE\nFROM ${BASE}\n")
    with pytest.raises(UserError, match=r"Containerfile: FROM \$\{BASE\}: .*not the name of a pod base") as caught:
        pod_images.folder_image("one", tmp_path, {}, BASES)
    assert "DEBIAN_12 or DEBIAN_13" in str(caught.value.fix)


def test_the_context_is_the_folder_without_declarations(tmp_path: Path) -> None:
    for name in ("Containerfile", "settings.json", ".hidden", "uv.lock", "README.md", "service.py", "settings.py"):
        (tmp_path / name).write_text("FROM scratch\n")
    write(tmp_path, src__main="", tests__test="", checks__test="", images__proxy__Containerfile="")
    (tmp_path / "uv.lock").unlink()
    assert set(pod_images.folder_image("one", tmp_path, {}, {}).files) == {"settings.json", "src"}


def test_a_service_has_several_images(tmp_path: Path) -> None:
    images = {"images__proxy__Containerfile": "", "images__notebook__Containerfile": ""}
    folder = write(tmp_path / "hub", Containerfile="", **images)
    service = replace(services()[0], folder=folder)
    assert service.image_folders == {
        "hub": folder,
        "hub-notebook": folder / "images" / "notebook",
        "hub-proxy": folder / "images" / "proxy",
    }
    pushed = {n: ImageReference(repository=f"r/strata/{n}", digest=f"sha256:{'0' * 64}") for n in service.image_folders}
    context: Any = ServiceContext(service, Any, Any, Path(), pushed, Any, {})  # type: ignore[arg-type]  # unused here
    assert context.image["repository"] == "r/strata/hub"
    assert {name: image["repository"] for name, image in context.images.items()} == {
        "notebook": "r/strata/hub-notebook",
        "proxy": "r/strata/hub-proxy",
    }


@pytest.mark.parametrize("name", ["lab", "csc"])
def test_only_the_services_of_a_site_and_their_bases_are_built(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    site = load_site(REPOSITORY / "inventories" / name / "site.yaml")
    monkeypatch.setattr(pod_images, "ensure_pod_bases", lambda names, _: dict.fromkeys(names))
    releases = pod_images.ensure_site_bases(site, Silent())
    folders = pod_images.image_folders(site)
    texts = "".join((folder / "Containerfile").read_text() for folder in folders.values())
    assert ("13" in releases) == ("FROM ${DEBIAN_13}" in texts)
    absent = {n for service in services() if service.of(site) is None for n in service.image_folders}
    assert not absent & folders.keys()


def test_images_of_the_catalogue(binaries: dict[str, Path]) -> None:
    files = sorted(p for pattern in ("services/**/", "tools/*/") for p in REPOSITORY.glob(f"{pattern}Containerfile"))
    own = {folder: name for service in services() for name, folder in service.image_folders.items()}
    names = [own.get(file.parent, file.parent.name) for file in files]
    assert {"gpu-device-plugin", "pause"} <= set(names)
    assert len(names) == len(set(names)), "two images of one name"
    for name, file in zip(names, files, strict=True):
        image = pod_images.folder_image(name, file.parent, binaries, BASES)
        assert image.name.endswith(f"/{name}")
        assert bool(image.bases) == ("FROM ${" in image.containerfile)
