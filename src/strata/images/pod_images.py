"""The images of a cluster, Kubernetes' own and those of our services, kept in the site's registry."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from strata.catalogue.site_services import installed
from strata.image_reference import ImageReference
from strata.images.build import ImageSource, load_digests, save_digests
from strata.images.containerfile import BASES, bases, runs_commands
from strata.images.filesystem_build import ensure_pod_bases
from strata.images.oci_layout import ensure_oci_layout
from strata.images.push import push
from strata.images.python_packages import PythonPackages, local_packages
from strata.images.registry_client import RegistryClient
from strata.images.root_filesystem import PodBase
from strata.inventory.kubernetes import registry_name
from strata.models.site import Site
from strata.platform.nvidia_device_plugin import built_in_kinds
from strata.progress import Progress
from strata.site.installer_facts import builds_kubernetes_images
from strata.site.outputs import ImageOutputs
from strata.site.paths import REPOSITORY, SitePaths, cache_directory
from strata.toolchain import ensure, load_versions

KUBERNETES_REPOSITORY = "kubernetes"
"""Folder of kubeadm's images below the registry."""

SERVICE_REPOSITORY = "strata"
"""Images of ours below the registry."""

STATIC_PODS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")

DEBIAN_12 = "DEBIAN_12"
"""Build argument of the base that the cluster's own images start from."""

PARALLEL = max(2, os.cpu_count() or 1)
"""Images that are built or pushed at once."""

POD_BASE_PYTHON = {"12": "3.11", "13": "3.13"}
"""Interpreter in the pod base, by Debian release."""

NOT_IN_CONTEXT = frozenset(
    {
        "Containerfile",
        "README.md",
        "benchmarks.py",
        "checks",
        "commands",
        "images",
        "pyproject.toml",
        "service.py",
        "settings.py",
        "tests",
        "uv.lock",
    }
)
"""Files of an image's folder that its build does not see, beside hidden ones."""

_BINARY = """FROM scratch
ENV PATH=/usr/local/bin
COPY {name} /usr/local/bin/{name}
ENTRYPOINT ["/usr/local/bin/{name}"]
"""
# as upstream's distroless-iptables: the program and what it calls, not a whole Debian for every node to unpack. Without
# /etc/protocols nft lists "6" where kube-proxy wrote "tcp"; at each of its full syncs, at its start and every hour, it
# then takes its own elements for foreign ones and deletes them, and no service is reachable any more
_KUBE_PROXY = """ARG DEBIAN_12
FROM ${DEBIAN_12} AS base
RUN set -e; for file in /etc/protocols /usr/sbin/nft $(ldd /usr/sbin/nft | grep -o '/[^ ]*'); do \\
    mkdir -p "/only$(dirname "$file")"; cp -L "$file" "/only$file"; done
FROM scratch
ENV PATH=/usr/local/bin:/usr/sbin
COPY --from=base /only /
COPY kube-proxy /usr/local/bin/kube-proxy
ENTRYPOINT ["/usr/local/bin/kube-proxy"]
"""
_COREDNS = 'FROM scratch\nCOPY coredns /coredns\nENTRYPOINT ["/coredns"]\n'
# the public CAs are for ACME
_TRAEFIK = """ARG DEBIAN_12
FROM ${DEBIAN_12} AS base
FROM scratch
COPY --from=base /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY traefik /traefik
ENTRYPOINT ["/traefik"]
"""
_BASE = "ARG DEBIAN_12\nFROM ${DEBIAN_12}\n"


def kubernetes_images(binaries: Mapping[str, Path], versions: Mapping[str, str], base: PodBase) -> list[ImageSource]:
    """The images that kubeadm asks for.

    Args:
        binaries: tool name to file.
        versions: tool name to tag, `v1.35.4`.
        base: of Debian 12 (kube-proxy takes nft from it).
    """
    images = [
        ImageSource(f"{KUBERNETES_REPOSITORY}/{n}", _BINARY.format(name=n), {n: binaries[n]}, (versions[n],))
        for n in STATIC_PODS
    ]
    proxy = "kube-proxy"
    return [
        *images,
        ImageSource(
            f"{KUBERNETES_REPOSITORY}/{proxy}",
            _KUBE_PROXY,
            {proxy: binaries[proxy]},
            (versions[proxy],),
            {DEBIAN_12: base},
        ),
        ImageSource(
            f"{KUBERNETES_REPOSITORY}/coredns", _COREDNS, {"coredns": binaries["coredns"]}, (versions["coredns"],)
        ),
    ]


def folder_image(
    name: str,
    folder: Path,
    binaries: Mapping[str, Path],
    pod_bases: Mapping[str, PodBase],
    tags: tuple[str, ...] = (),
) -> ImageSource:
    """The image of a folder with a Containerfile.

    Args:
        name: short name in the registry.
        folder: a Python project (uv.lock) finds its dependencies as `site-packages/` in the build context, packages of
            this repository in `src/`, beside its own; a Go module finds the binary that the toolchain built; anything
            but a Go module finds the folder's own files.
        binaries: tool name to file.
        pod_bases: by Debian release.
        tags: tags beside the content's.

    Raises:
        UserError: the Containerfile starts from an unknown base.
    """
    repository = KUBERNETES_REPOSITORY if name == "pause" else SERVICE_REPOSITORY
    containerfile = folder / "Containerfile"
    text = containerfile.read_text()
    used = bases(text, containerfile)
    own = {path.name: path for path in folder.iterdir() if path.name not in NOT_IN_CONTEXT and path.name[0] != "."}
    packages = None
    if (folder / "uv.lock").exists():
        packages = PythonPackages(folder, POD_BASE_PYTHON[BASES[used[-1]]])
        own |= {f"src/{package}": path for package, path in local_packages(folder).items()}
    return ImageSource(
        name=f"{repository}/{name}",
        containerfile=text,
        files={name: binaries[name]} if (folder / "go.mod").exists() else own,
        tags=tags,
        bases={argument: pod_bases[BASES[argument]] for argument in used},
        packages=packages,
        network=runs_commands(text),
    )


def as_one_set(sources: Sequence[ImageSource]) -> list[ImageSource]:
    """Puts kubeadm's images into a folder named by the content of all of them.

    kubeadm asks for tags, and a node keeps the image that it has for a tag. So other content needs another
    imageRepository; then kubeadm's configuration differs, and the next run of the role brings the images in.
    """
    own = [s.content_hash() for s in sources if s.name.startswith(KUBERNETES_REPOSITORY)]
    folder = f"{KUBERNETES_REPOSITORY}/{hashlib.sha256(' '.join(sorted(own)).encode()).hexdigest()[:12]}"
    return [
        replace(s, name=f"{folder}/{s.name.rpartition('/')[2]}") if s.name.startswith(KUBERNETES_REPOSITORY) else s
        for s in sources
    ]


def push_images(sources: Sequence[ImageSource], registry: RegistryClient, progress: Progress) -> dict[str, str]:
    """Builds and pushes what is missing in the registry.

    Args:
        sources: the images.
        registry: the site's.
        progress: receives status messages.

    Returns:
        repository to digest.
    """
    digests: dict[str, str] = {}
    missing: list[tuple[ImageSource, str]] = []
    for source in sources:
        content = source.content_hash()
        pushed = registry.digest(source.name, content)
        if pushed:
            digests[source.name] = pushed
        else:
            missing.append((source, content))
    if missing:
        with tempfile.TemporaryDirectory(prefix="strata-registry-") as directory:
            registry.write_credentials(Path(directory))
            send = _sender(registry, Path(directory), progress)
            with ThreadPoolExecutor(max_workers=PARALLEL) as pool:
                for (source, _), digest in zip(missing, pool.map(send, missing), strict=True):
                    digests[source.name] = digest
    for source in sources:
        for tag in source.tags:
            registry.tag(source.name, digests[source.name], tag)
    return digests


def _sender(
    registry: RegistryClient, credentials: Path, progress: Progress
) -> Callable[[tuple[ImageSource, str]], str]:
    def send(item: tuple[ImageSource, str]) -> str:
        source, content = item
        return push(ensure_oci_layout(source, content, progress), source.name, content, registry, credentials, progress)

    return send


def image_folders(site: Site) -> dict[str, Path]:
    """Folders with the Containerfiles that a site's cluster uses, by short name."""
    names = ["tools/pause", *(["tools/gpu-device-plugin"] if built_in_kinds(site) else [])]
    folders = {Path(name).name: REPOSITORY / name for name in names}
    for service in installed(site):
        folders |= service.image_folders
    return dict(sorted(folders.items()))


def ensure_site_bases(site: Site, progress: Progress) -> dict[str, PodBase]:
    """The pod bases that a site's images start from, by Debian release.

    Raises:
        UserError: mmdebstrap failed, or a Containerfile starts from an unknown base.
    """
    files = [folder / "Containerfile" for folder in image_folders(site).values()]
    used = {DEBIAN_12, *(name for file in files for name in bases(file.read_text(), file))}
    return ensure_pod_bases((BASES[name] for name in used), progress)


def _wanted(site: Site, progress: Progress) -> list[ImageSource]:
    """The images of a site's cluster."""
    folders = image_folders(site)
    modules = [name for name, folder in folders.items() if (folder / "go.mod").exists()]
    kubernetes = (*STATIC_PODS, "kube-proxy", "coredns") if builds_kubernetes_images(site) else ()
    tools = ensure((*kubernetes, "traefik", *modules), progress)
    binaries = {name: tool.path for name, tool in tools.items()}
    pinned = load_versions().tools
    versions = {name: f"v{pinned[name].version.removeprefix('v')}" for name in binaries}
    pod_bases = ensure_site_bases(site, progress)
    own = {DEBIAN_12: pod_bases[BASES[DEBIAN_12]]}
    traefik = {"traefik": binaries["traefik"]}
    sources = [
        *(kubernetes_images(binaries, versions, own[DEBIAN_12]) if kubernetes else ()),
        *(
            folder_image(name, folder, binaries, pod_bases, (pinned["pause"].version,) if name == "pause" else ())
            for name, folder in folders.items()
        ),
        ImageSource(f"{SERVICE_REPOSITORY}/traefik", _TRAEFIK, traefik, (versions["traefik"],), own),
        ImageSource(f"{SERVICE_REPOSITORY}/pod-base", _BASE, bases=own),
    ]
    return as_one_set(sources)


def build_pod_images(site: Site, progress: Progress) -> int:
    """Has every image that a site's cluster uses packed in the cache; returns how many.

    Args:
        site: the site.
        progress: receives status messages.

    Raises:
        UserError: podman or uv refused.
    """
    with _kept_digests():
        sources = _wanted(site, progress)
        with ThreadPoolExecutor(max_workers=PARALLEL) as pool:
            return len(list(pool.map(lambda s: ensure_oci_layout(s, s.content_hash(), progress), sources)))


@contextmanager
def _kept_digests() -> Iterator[None]:
    """Has the digests of big files that earlier runs computed, and keeps them with those computed inside."""
    cache = cache_directory() / "images" / "digests.tsv"
    load_digests(cache)
    yield
    save_digests(cache)


def ensure_pod_images(
    site: Site, paths: SitePaths, registry_address: str, password: str, progress: Progress
) -> ImageOutputs:
    """Has every image that the site's cluster uses in its registry.

    Args:
        site: names the registry, `registry.<domain>:5000`.
        paths: where the site's certificate authority is.
        registry_address: IP address of the host with the role registry.
        password: of the registry's operator.
        progress: receives status messages.

    Returns:
        the images, by short name.

    Raises:
        UserError: podman, uv or the registry refused.
    """
    host_name = f"registry.{site.domain}"
    with _kept_digests(), RegistryClient(registry_address, host_name, paths.ca_file, password, progress) as registry:
        digests = push_images(_wanted(site, progress), registry, progress)
    prefix = registry_name(site)
    return ImageOutputs(
        images={
            name.rpartition("/")[2]: ImageReference(repository=f"{prefix}/{name}", digest=digest)
            for name, digest in sorted(digests.items())
        }
    )
