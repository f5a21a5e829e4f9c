"""The images that Kubernetes' tests run, in the site's registry."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from strata.access.podman import podman
from strata.engine.up_steps import registry_address
from strata.errors import UserError
from strata.images.build import ImageSource
from strata.images.filesystem_build import ensure
from strata.images.pod_images import push_images
from strata.images.registry_client import RegistryClient
from strata.images.root_filesystem import PodBase, RootFilesystem
from strata.inventory.clients import OPERATOR_SECRET
from strata.inventory.kubernetes import registry_name
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site.paths import REPOSITORY
from strata.toolchain import ensure as ensure_tools
from strata_conformance.build import TESTS

REPOSITORY_FOLDER = "conformance"
"""Images of the tests below the registry."""
IMAGES = Path(__file__).parent / "images"
PACKAGES = ("bind9-dnsutils", "busybox", "curl", "iproute2", "netbase", "netcat-openbsd", "nginx")
REGISTRIES = ("promoterE2eRegistry", "gcRegistry", "gcEtcdRegistry")
"""Registries of k8s.io/kubernetes/test/utils/image that the suites' images come from."""
_LIST_SECONDS = 60


def image_files(tests: Path, pause: Path) -> dict[str, dict[str, Path]]:
    """Image to the files of its build context, by their names there.

    Args:
        tests: what `ensure_tests` returned.
        pause: the pause binary.
    """
    agnhost, sources = {"agnhost": tests / "agnhost"}, tests / "images"
    return {
        "agnhost": agnhost | {n: sources / "agnhost/porter" / n for n in ("localhost.crt", "localhost.key")},
        "busybox": {},
        "etcd": {"etcd": tests / "etcd"},
        "jessie-dnsutils": {},
        **{
            name: agnhost | {n: sources / name / "html" / n for n in (f"{name}.jpg", "data.json")}
            for name in ("kitten", "nautilus")
        },
        "nginx": {"nginx.conf": IMAGES / "nginx.conf"},
        "nonewprivs": {},
        "pause": {"pause": pause},
        "sample-apiserver": {"sample-apiserver": tests / "sample-apiserver"},
    }


def tags(listed: Sequence[str], folder: str) -> dict[str, tuple[str, ...]]:
    """Image to the tags that the tests ask for.

    Args:
        listed: references, one each.
        folder: of the registry; references elsewhere are left out.
    """
    by_name: dict[str, list[str]] = defaultdict(list)
    for reference in listed:
        if reference.startswith(f"{folder}/"):
            name, _, tag = reference.removeprefix(f"{folder}/").partition(":")
            by_name[name].append(tag)
    return {name: tuple(sorted(set(names))) for name, names in by_name.items()}


def push_test_images(
    context: SiteContext, tests: Path, environment: Mapping[str, str], registries: Path, progress: Progress
) -> None:
    """Has the tests' images in the site's registry.

    Args:
        context: the site.
        tests: what `ensure_tests` returned.
        environment: of the tests, KUBE_TEST_REPO_LIST included.
        registries: the file that KUBE_TEST_REPO_LIST names; is written.
        progress: receives status messages.

    Raises:
        UserError: mmdebstrap, podman, or the registry refused; the site has no registry.
    """
    base = _base(progress)
    files = image_files(tests, ensure_tools(["pause"], progress)["pause"].path)
    untagged = [image_source(name, context_files, base) for name, context_files in files.items()]
    # a node keeps the image that it has for a tag: other content needs another folder
    content = hashlib.sha256(" ".join(source.content_hash() for source in untagged).encode())
    folder = f"{REPOSITORY_FOLDER}/{content.hexdigest()[:12]}"
    there = f"{registry_name(context.site)}/{folder}"
    registries.write_text(json.dumps(dict.fromkeys(REGISTRIES, there)))  # JSON is YAML
    by_name = tags(_list(tests, environment), there)
    sources = [replace(s, name=f"{folder}/{s.name}", tags=by_name.get(s.name, ())) for s in untagged]
    address, password = registry_address(context), context.secrets.get(OPERATOR_SECRET)
    host_name = f"registry.{context.site.domain}"
    with RegistryClient(address, host_name, context.paths.ca_file, password, progress) as registry:
        push_images(sources, registry, progress)


def _base(progress: Progress) -> PodBase:
    filesystem = RootFilesystem("conformance", "13", PACKAGES, (IMAGES / "customize.sh",))
    reference = ensure(filesystem, progress, ('CMD ["/bin/sh"]',))
    return PodBase(reference, podman("image", "inspect", "--format={{.Id}}", reference).strip())


def image_source(name: str, files: Mapping[str, Path], base: PodBase) -> ImageSource:
    """An image by its Containerfile.

    Args:
        name: of the image.
        files: of its build context.
        base: the root filesystem that images made from Debian packages start from, as the build argument BASE.
    """
    own = IMAGES / f"{name}.Containerfile"
    file = own if own.exists() else REPOSITORY / "tools" / name / "Containerfile"
    text = file.read_text()
    return ImageSource(name, text, files, bases={"BASE": base} if "${BASE}" in text else {})


def _list(tests: Path, environment: Mapping[str, str]) -> list[str]:
    done = subprocess.run(
        [tests / TESTS, "--list-images"],
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=_LIST_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise UserError(
            f"the tests' binary does not run: {done.stderr.strip()[-300:]}", fix=f"rm -r {tests}, and run again"
        )
    return done.stdout.split()
