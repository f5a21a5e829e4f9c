"""The images that Kubernetes' tests run, in the site's registry."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from strata.engine.layers import registry_address
from strata.errors import UserError
from strata.images.build import ImageSource
from strata.images.pod_images import push_images
from strata.images.registry_client import RegistryClient
from strata.images.root_filesystem import RootFilesystem, ensure
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


def images_folder(context: SiteContext) -> str:
    """Folder of the site's registry that the tests take their images from."""
    return f"{registry_name(context.site)}/{REPOSITORY_FOLDER}"


def write_registries(context: SiteContext, file: Path) -> None:
    """Writes the tests' list of registries (KUBE_TEST_REPO_LIST)."""
    file.write_text(json.dumps(dict.fromkeys(REGISTRIES, images_folder(context))))  # JSON is YAML


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
        "pause": {"pause": pause},
        "sample-apiserver": {"sample-apiserver": tests / "sample-apiserver"},
    }


def tags(listed: Sequence[str], folder: str) -> dict[str, tuple[str, ...]]:
    """Image to the tags that the tests ask for.

    Args:
        listed: references, one each.
        folder: of the registry; references elsewhere are left out.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for reference in listed:
        if reference.startswith(f"{folder}/"):
            name, _, tag = reference.removeprefix(f"{folder}/").partition(":")
            found[name].append(tag)
    return {name: tuple(sorted(set(names))) for name, names in found.items()}


def push_test_images(context: SiteContext, tests: Path, environment: Mapping[str, str], progress: Progress) -> None:
    """Has the tests' images in the site's registry.

    Args:
        context: the site.
        tests: what `ensure_tests` returned.
        environment: of the tests, with KUBE_TEST_REPO_LIST.
        progress: told what is built and pushed.

    Raises:
        UserError: mmdebstrap, podman, or the registry refused; the site has no registry.
    """
    wanted = tags(_run_list(tests, environment), images_folder(context))
    filesystem = RootFilesystem("conformance", "13", PACKAGES, (IMAGES / "customize.sh",))
    base = ensure(filesystem, progress, command='CMD ["/bin/sh"]')
    files = image_files(tests, ensure_tools(["pause"], progress)["pause"].path)
    sources = [
        ImageSource(f"{REPOSITORY_FOLDER}/{name}", containerfile(name, base), context_files, wanted.get(name, ()))
        for name, context_files in files.items()
    ]
    address, password = registry_address(context), context.secrets.get(OPERATOR_SECRET)
    name = f"registry.{context.site.domain}"
    with RegistryClient(address, name, context.paths.ca_file, password, progress) as registry:
        push_images(sources, "", registry, progress)


def containerfile(image: str, base: str) -> str:
    """Text of an image's Containerfile, with the base in its place.

    Args:
        image: its name.
        base: local reference of the root filesystem; its tag is the content's, so it is part of the image's hash.
    """
    own = IMAGES / f"{image}.Containerfile"
    file = own if own.exists() else REPOSITORY / "lab" / "images" / image / "Containerfile"
    return file.read_text().replace("${BASE}", base)


def _run_list(tests: Path, environment: Mapping[str, str]) -> list[str]:
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
