"""Kubernetes' end-to-end tests and the programs of their images, built from the pinned Go modules."""

from __future__ import annotations

import hashlib
import os
import shutil
from functools import partial
from pathlib import Path

from strata.errors import UserError
from strata.locks import file_lock
from strata.progress import Progress, elapsed
from strata.site.paths import REPOSITORY, cache_directory
from strata.toolchain import go as go_toolchain
from strata.toolchain import load_versions
from strata.toolchain.process import Processes
from strata.toolchain.versions import Binary, Build, Component

TESTS = "e2e.test"
"""The test binary, in the directory that `ensure_tests` returns."""
PROGRAMS = {
    "agnhost": "k8s.io/kubernetes/test/images/agnhost",
    "sample-apiserver": "k8s.io/sample-apiserver",
    "etcd": "go.etcd.io/etcd/server/v3",
    TESTS: "k8s.io/kubernetes/test/e2e",
}
"""Binary to the package that it is built from, in this order."""
IMAGE_FILES = ("agnhost/porter", "kitten/html", "nautilus/html")
"""Folders of k8s.io/kubernetes/test/images that hold files of images."""

_SUMS = Path(__file__).parent / "go.sum"
"""What the tests need beyond tools/kubernetes/go.sum."""
_REQUIRED = """
require (
	go.etcd.io/etcd/server/v3 v3.6.5
	k8s.io/sample-apiserver v0.0.0
)
"""
"""Modules beyond tools/kubernetes/go.mod: etcd at the version that Kubernetes requires; the other is replaced there."""
_TICK_SECONDS = 5.0


def _module() -> dict[str, str]:
    """Files of the Go module that the tests are built in: the one of Kubernetes, and what only the tests need."""
    kubernetes = REPOSITORY / "tools" / "kubernetes"
    return {
        "go.mod": (kubernetes / "go.mod").read_text() + _REQUIRED,
        "go.sum": (kubernetes / "go.sum").read_text() + _SUMS.read_text(),
    }


def tests_directory() -> Path:
    """Where the tests are once they are built; the name changes with their sources."""
    version = load_versions().components["kubernetes"].version
    inputs = hashlib.sha256("\0".join([version, *PROGRAMS.values(), *IMAGE_FILES, *_module().values()]).encode())
    return cache_directory() / "conformance" / f"{version}-{inputs.hexdigest()[:12]}"


def ensure_tests(progress: Progress) -> Path:
    """Builds the tests and the programs of their images where that has not been done.

    Args:
        progress: receives status messages.

    Returns:
        directory with the binaries of PROGRAMS and, below `images`, the folders of IMAGE_FILES.

    Raises:
        UserError: no Go, or a build failed; names the log.
    """
    target = tests_directory()
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(target.with_name(f"{target.name}.lock"), progress, "another process to build Kubernetes' tests"):
        if not target.exists():
            partial = target.with_name(f"{target.name}.part")
            shutil.rmtree(partial, ignore_errors=True)
            _build(partial, progress)
            partial.rename(target)
            go_toolchain.empty_caches()
    return target


def _build(into: Path, progress: Progress) -> None:
    versions = load_versions()
    kubernetes = versions.components["kubernetes"]
    module = into / "module"
    module.mkdir(parents=True)
    for name, text in _module().items():
        (module / name).write_text(text)
    plan = Build(directory=module, stamp=kubernetes.build.stamp if kubernetes.build else {})
    for name, package in PROGRAMS.items():
        component = Component(version=kubernetes.version, build=plan, binaries={name: Binary(package=package)})
        with elapsed(progress, f"building {name}", partial(_compiled, name), _TICK_SECONDS):
            go_toolchain.build(name, component, plan, [name], into, versions, Processes())
    modules = Path(os.environ.get("GOMODCACHE") or go_toolchain.build_caches() / "modules")
    sources = modules / "k8s.io" / f"kubernetes@v{kubernetes.version}" / "test" / "images"
    try:
        for folder in IMAGE_FILES:
            shutil.copytree(sources / folder, into / "images" / folder)
    except OSError as error:
        raise UserError(f"files of the tests' images: {error}", fix="run the same command again") from None


def _compiled(name: str) -> str:
    """How many packages a build has compiled, as its log has them."""
    try:
        packages = go_toolchain.build_log(name).read_bytes().count(b"\n")
    except OSError:
        packages = 0
    return f", {packages} packages" if packages else ""
