"""The tests' images: what they are made of, their tags, where the tests look for them."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from strata.images.build import ImageSource
from strata.images.root_filesystem import PodBase
from strata.progress import Silent
from strata.site.context import SiteContext
from strata_conformance import images

BASE = PodBase("localhost/base:1", "0123")


def test_every_image_has_a_containerfile_that_copies_its_files(tmp_path: Path) -> None:
    for name, files in images.image_files(tmp_path, tmp_path / "pause").items():
        text = images.image_source(name, files, BASE).containerfile
        for file in files:
            assert re.search(rf"^COPY .*{re.escape(file)}", text, re.MULTILINE), f"{name}: {file} is not copied"
    used = {f"{name}.Containerfile" for name in images.image_files(tmp_path, tmp_path)}
    assert {file.name for file in images.IMAGES.glob("*.Containerfile")} <= used


def test_tags_are_those_that_the_tests_list() -> None:
    listed = ["site:5000/conformance/agnhost:2.59", "site:5000/conformance/agnhost:2.55", "gcr.io/private/agnhost:2.6"]
    assert images.tags(listed, "site:5000/conformance") == {"agnhost": ("2.55", "2.59")}


def test_images_are_pushed_where_the_tests_look_for_them(
    context: SiteContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other content is another folder: a node keeps the image that it has for a tag."""
    tests = tmp_path / "tests"
    pushed: list[list[ImageSource]] = []
    registries = tmp_path / "registries.json"
    monkeypatch.setattr(images, "_base", lambda _: BASE)
    monkeypatch.setattr(images, "ensure_tools", lambda *_: {"pause": SimpleNamespace(path=tests / "pause")})
    monkeypatch.setattr(images, "registry_address", lambda _: "192.0.2.1")
    monkeypatch.setattr(images, "RegistryClient", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(images, "push_images", lambda sources, *_: pushed.append(sources))

    def listed(_tests: Path, environment: dict[str, str]) -> list[str]:
        """As the test binary: the registries of KUBE_TEST_REPO_LIST, with names and tags of its own."""
        folders = json.loads(Path(environment["KUBE_TEST_REPO_LIST"]).read_text())
        return [f"{folders['promoterE2eRegistry']}/agnhost:2.59", f"{folders['gcRegistry']}/pause:3.10.1"]

    monkeypatch.setattr(images, "_list", listed)
    for files in images.image_files(tests, tests / "pause").values():
        for file in files.values():
            if tests in file.parents:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("content")
    environment = {"KUBE_TEST_REPO_LIST": str(registries)}
    images.push_test_images(context, tests, environment, registries, Silent())
    folders = {source.name.rpartition("/")[0] for source in pushed[0]}
    assert len(folders) == 1
    assert set(json.loads(registries.read_text()).values()) == {f"registry.lab.strata.test:5000/{folders.pop()}"}
    assert {source.name.rpartition("/")[2]: source.tags for source in pushed[0] if source.tags} == {
        "agnhost": ("2.59",),
        "pause": ("3.10.1",),
    }
    (tests / "etcd").write_text("other content, and longer")
    images.push_test_images(context, tests, environment, registries, Silent())
    assert not {source.name for source in pushed[0]} & {source.name for source in pushed[1]}
