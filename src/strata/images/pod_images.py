"""The images of a lab cluster, Kubernetes' own and those of our services, kept in the site's registry."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from strata.access.podman import podman
from strata.catalogue.site import installed
from strata.image_reference import ImageReference
from strata.images.build import ImageSource, PythonPackages, load_digests, save_digests
from strata.images.oci_layout import ensure_oci_layout
from strata.images.push import push
from strata.images.registry_client import RegistryClient
from strata.inventory.kubernetes import registry_name
from strata.models import Site
from strata.platform.accelerators import cluster_kinds
from strata.progress import Progress
from strata.site.outputs import ImageOutputs
from strata.site.paths import REPOSITORY, SitePaths, cache_directory

KUBERNETES_REPOSITORY = "kubernetes"
"""Folder of kubeadm's images below the registry."""

SERVICE_REPOSITORY = "strata"
"""Images of ours below the registry."""

STATIC_PODS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")

POD_BASE_PYTHON = "3.11"
"""Interpreter in the pod base image (Debian 12)."""

_BINARY = """FROM scratch
ENV PATH=/usr/local/bin
COPY {name} /usr/local/bin/{name}
ENTRYPOINT ["/usr/local/bin/{name}"]
"""
# as upstream's distroless-iptables: the program and what it calls, not a whole Debian for every node to unpack. Without
# /etc/protocols nft lists "6" where kube-proxy wrote "tcp"; at each of its full syncs, at its start and every hour, it
# then takes its own elements for somebody's left over and deletes them, and no service answers any more
_KUBE_PROXY = """ARG BASE
FROM ${BASE} AS base
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
_TRAEFIK = """ARG BASE
FROM ${BASE} AS base
FROM scratch
COPY --from=base /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY traefik /traefik
ENTRYPOINT ["/traefik"]
"""
_BASE = "ARG BASE\nFROM ${BASE}\n"


def kubernetes_images(binaries: Mapping[str, Path], versions: Mapping[str, str], base: str) -> list[ImageSource]:
    """The images that kubeadm asks for.

    Args:
        binaries: tool name to file.
        versions: tool name to tag, `v1.35.4`.
        base: local reference of the pod base image (kube-proxy takes nft from it).
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
            base,
        ),
        ImageSource(
            f"{KUBERNETES_REPOSITORY}/coredns", _COREDNS, {"coredns": binaries["coredns"]}, (versions["coredns"],)
        ),
    ]


def service_image(directory: Path, binaries: Mapping[str, Path], base: str, tags: tuple[str, ...] = ()) -> ImageSource:
    """The image of a service of ours, from `services/<name>/Containerfile`.

    The Containerfile copies from a context that needs no network: a Python service (pyproject.toml and uv.lock)
    finds `site-packages/` and its own `src/`; a Go service finds the binary that the toolchain built, called as
    the directory. `ARG BASE` is the pod base image.
    """
    name = directory.name
    repository = KUBERNETES_REPOSITORY if name == "pause" else SERVICE_REPOSITORY
    text = (directory / "Containerfile").read_text()
    on_base = base if "BASE" in text else None
    if (directory / "go.mod").exists():
        return ImageSource(f"{repository}/{name}", text, {name: binaries[name]}, tags, on_base)
    packages = PythonPackages(directory, POD_BASE_PYTHON) if (directory / "uv.lock").exists() else None
    return ImageSource(f"{repository}/{name}", text, {"src": directory / "src"}, tags, on_base, packages)


def _content(source: ImageSource, base_id: str) -> str:
    """Content hash of an image; the base is part of those that start from it."""
    return source.content_hash(base_id if source.base else None)


def as_one_set(sources: Sequence[ImageSource], base_id: str) -> list[ImageSource]:
    """Puts kubeadm's images into a folder named by the content of all of them.

    kubeadm asks for tags, and a node keeps the image that it has for a tag. So other content needs another
    imageRepository; then kubeadm's configuration differs, and the next run of the role brings the images in.
    """
    own = [_content(s, base_id) for s in sources if s.name.startswith(KUBERNETES_REPOSITORY)]
    folder = f"{KUBERNETES_REPOSITORY}/{hashlib.sha256(' '.join(sorted(own)).encode()).hexdigest()[:12]}"
    return [
        replace(s, name=f"{folder}/{s.name.rpartition('/')[2]}") if s.name.startswith(KUBERNETES_REPOSITORY) else s
        for s in sources
    ]


def push_images(
    sources: Sequence[ImageSource], base_id: str, registry: RegistryClient, progress: Progress
) -> dict[str, str]:
    """Builds and pushes what the registry lacks.

    Args:
        sources: the images.
        base_id: id of the base image, part of the content of those that start from it.
        registry: the site's.
        progress: told which image is built or pushed.

    Returns:
        repository to digest.
    """
    digests: dict[str, str] = {}
    missing: list[tuple[ImageSource, str]] = []
    for source in sources:
        content = _content(source, base_id)
        found = registry.digest(source.name, content)
        if found:
            digests[source.name] = found
        else:
            missing.append((source, content))
    if missing:
        with tempfile.TemporaryDirectory(prefix="strata-registry-") as directory:
            registry.write_credentials(Path(directory))
            send = _sender(registry, Path(directory), progress)
            with ThreadPoolExecutor(max_workers=2) as pool:
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


def image_folders(site: Site) -> list[Path]:
    """Folders with the Containerfiles that a site's cluster uses."""
    folders = ["lab/images/pause", *(["services/gpu-device-plugin"] if cluster_kinds(site) else [])]
    own = [service.folder for service in installed(site) if service.has_image]
    return sorted([*(REPOSITORY / name for name in folders), *own])


def _wanted(site: Site, progress: Progress) -> tuple[list[ImageSource], str]:
    """The images of a site's cluster, and the id of the base image."""
    from strata.images.root_filesystem import ensure_pod_base_image
    from strata.toolchain import ensure, load_versions

    services = image_folders(site)
    go_services = [p.name for p in services if (p / "go.mod").exists()]
    tools = ensure((*STATIC_PODS, "kube-proxy", "coredns", "traefik", *go_services), progress)
    binaries = {name: tool.path for name, tool in tools.items()}
    pinned = load_versions().tools
    versions = {name: f"v{pinned[name].version.removeprefix('v')}" for name in binaries}
    base = ensure_pod_base_image(progress)
    sources = [
        *kubernetes_images(binaries, versions, base),
        *(service_image(p, binaries, base, (pinned["pause"].version,) if p.name == "pause" else ()) for p in services),
        ImageSource(
            f"{SERVICE_REPOSITORY}/traefik", _TRAEFIK, {"traefik": binaries["traefik"]}, (versions["traefik"],), base
        ),
        ImageSource(f"{SERVICE_REPOSITORY}/pod-base", _BASE, base=base),
    ]
    base_id = podman("image", "inspect", "--format={{.Id}}", base).strip()
    return as_one_set(sources, base_id), base_id


def build_pod_images(site: Site, progress: Progress) -> int:
    """Has every image that a site's cluster uses packed in the cache; returns how many.

    Args:
        site: the site.
        progress: told what is built.

    Raises:
        UserError: podman or uv refused.
    """
    with _kept_digests():
        sources, base_id = _wanted(site, progress)
        with ThreadPoolExecutor(max_workers=2) as pool:
            return len(list(pool.map(lambda s: ensure_oci_layout(s, _content(s, base_id), progress), sources)))


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
        progress: told what is built.

    Returns:
        the images, by short name.

    Raises:
        UserError: podman, uv or the registry refused.
    """
    host_name = f"registry.{site.domain}"
    with _kept_digests(), RegistryClient(registry_address, host_name, paths.ca_file, password, progress) as registry:
        sources, base_id = _wanted(site, progress)
        digests = push_images(sources, base_id, registry, progress)
    prefix = registry_name(site)
    return ImageOutputs(
        images={
            name.rpartition("/")[2]: ImageReference(repository=f"{prefix}/{name}", digest=digest)
            for name, digest in sorted(digests.items())
        }
    )
