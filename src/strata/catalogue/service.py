"""The declaration of one service, and what its functions are given."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from strata.catalogue.leaving_program import LeavingProgram
from strata.catalogue.need import Need, SecretReference
from strata.errors import UserError
from strata.image_reference import ImageReference
from strata.models.base import Model
from strata.models.finding import Finding
from strata.models.site import Site
from strata.service_modules import service_key, service_section

if TYPE_CHECKING:
    from pydantic import BaseModel

    from strata.catalogue.issuer import Issuer
    from strata.catalogue.needs.batch_queue import BatchServer
    from strata.catalogue.needs.bucket import S3Endpoint
    from strata.catalogue.needs.dask_clusters import DaskServer
    from strata.catalogue.needs.hugging_face import HubServer
    from strata.catalogue.needs.metrics_query import MetricsServer
    from strata.catalogue.needs.model_endpoint import ModelEndpoint

SYSTEM_NAMESPACE = "strata-system"
"""Of services that need no namespace of their own, and of the releases that make namespaces."""

FINGERPRINT_KEY = "secrets_fingerprint_key"
"""Secret of the site that keys the fingerprints of others."""

Values = dict[str, Any]
SettingsT = TypeVar("SettingsT", bound=Model)
ProvidedT = TypeVar("ProvidedT")


class Secrets(Protocol):
    """What services ask of the site's secret store."""

    @property
    def ca(self) -> str:
        """PEM of the site's certificate authority."""

    def get(self, name: str, make: Callable[[], str] | None = None) -> str:
        """The secret's value; generated at first use."""

    def peek(self, name: str) -> str | None:
        """A stored value, None where there is none."""


@dataclass(frozen=True)
class ServiceContext(Generic[SettingsT]):
    """One service of one site.

    Args:
        service: its declaration.
        settings: what the site file sets.
        site: the site.
        site_file: files that it names are relative to it.
        pushed: images in the site's registry, by short name.
        secrets: of the site.
        addresses: role to the address at which clients reach it.
        hosts: every host's address, by name.
    """

    service: Service[SettingsT]
    settings: SettingsT
    site: Site
    site_file: Path
    pushed: Mapping[str, ImageReference]
    secrets: Secrets
    addresses: Mapping[str, str]
    hosts: Mapping[str, str] = field(default_factory=dict)

    def provide(self, need: Need[ProvidedT]) -> ProvidedT:
        """What the platform answers a declared need with.

        Raises:
            LookupError: the service does not declare it.
            UserError: the site cannot provide it yet.
        """
        if need not in self.service.needs(self.settings):
            raise LookupError(f"{self.service.name} uses {need}, which its needs do not declare")
        return need.provide(self)

    @property
    def image(self) -> Values:
        """repository and digest of the service's own image."""
        return image(self.pushed, self.service.name)

    @property
    def images(self) -> dict[str, Values]:
        """repository and digest of each image in the service's `images/`, by the name of its folder there."""
        prefix = f"{self.service.name}-"
        names = [name.removeprefix(prefix) for name in self.service.image_folders if name != self.service.name]
        return {name: image(self.pushed, prefix + name) for name in names}

    @property
    def base_image(self) -> Values:
        """repository and digest of the Debian with Python that other images start from."""
        return image(self.pushed, "pod-base")

    def secret_reference(self, key: str) -> SecretReference:
        """An entry of the service's Kubernetes Secret."""
        return SecretReference(self.service.secret_name, key)

    def secret_data(self) -> dict[str, str]:
        """All entries of the service's Kubernetes Secret; empty for a service without secrets."""
        data: dict[str, str] = {}
        for need in self.service.needs(self.settings):
            data.update(need.secret_data(self))
        return data | dict(self.service.secret_data(self) if self.service.secret_data else {})

    def address(self, role: str) -> str:
        """Address at which clients reach a role.

        Raises:
            UserError: none is deployed.
        """
        if role not in self.addresses:
            raise UserError(
                f"site {self.site.name}: platform.services.{self.service.key} needs a host with the role {role}, and "
                "none is deployed",
                fix=f"strata up {self.site.name} --layer cloud",
            )
        return self.addresses[role]

    def read(self, key: str, file: Path) -> str:
        """The text of a file that the site file names.

        Raises:
            UserError: it cannot be read, or is not text.
        """
        file = self.site_file.parent / file
        try:
            return file.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise UserError(
                f"{self.site_file}: {key}: {file}: {error.strerror}",
                fix="name a file beside site.yaml",
                see="a-file-that-the-site-names-cannot-be-read",
            ) from error
        except UnicodeDecodeError as error:
            raise UserError(f"{self.site_file}: {key}: {file} is not UTF-8 text", fix="save it as UTF-8") from error


def fingerprint(secrets: Secrets, data: Mapping[str, str]) -> str:
    """A text that changes with secret data, and reveals nothing about it to those without the site's secrets."""
    key = secrets.get(FINGERPRINT_KEY).encode()
    return hmac.new(key, json.dumps(data, sort_keys=True).encode(), hashlib.sha256).hexdigest()[:32]


def image(images: Mapping[str, ImageReference], name: str) -> Values:
    """repository and digest of an image.

    Args:
        images: what the cluster layer pushed.
        name: short name, as its folder.

    Raises:
        UserError: it has not been pushed.
    """
    reference = images.get(name)
    if reference is None:
        known = ", ".join(sorted(images)) or "none"
        raise UserError(
            f"the site's registry has no image {name} (it has {known})", fix="run `strata up SITE --layer cluster`"
        )
    return dict(reference)


def _no_findings(settings: Any, site: Site, directory: Path) -> Iterable[Finding]:  # noqa: ARG001  # the default check
    return ()


@dataclass(frozen=True)
class Question:
    """A command that succeeds while a part of a service works which is not queried over HTTPS.

    Args:
        part: as `strata status` calls it.
        namespace: of the pod.
        pod: its name.
        container: of the pod.
        command: for the container; status waits a few seconds for it.
    """

    part: str
    namespace: str
    pod: str
    container: str
    command: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Service(Generic[SettingsT]):
    """A platform service.

    Its folder's name is the name of its release and its chart in helm/; with `_` for `-` it is its key below
    `platform.services`. `Containerfile` makes the image <name>, `images/<image>/Containerfile` the image
    <name>-<image>. Checks are in `checks/test_*.py`, the how-to is README.md.

    Args:
        folder: `Path(__file__).parent`.
        needs: what the platform provides it with.
        values: of its chart.
        check: cross-checks of the settings with the site; paths are relative to the site file's directory.
        secret_data: entries of its Kubernetes Secret beside those of its needs.
        issuer: of a service that issues the site's tokens.
        metrics_server: of a service that serves queries of the site's metrics.
        s3_endpoint: of a service that provides the site's S3 endpoint.
        batch_server: of a service that takes batch jobs.
        dask_server: of a service that starts Dask clusters for users.
        hub_server: of a service that mirrors the Hugging Face Hub for pods.
        model_endpoint: of a service by which users ask models.
        pod_annotations: values of the chart, by dotted path, that become annotations of pods.
        questions: by which `strata status` finds what hangs.
        leaving: programs that end what a user has, for `strata users remove`.
    """

    folder: Path
    needs: Callable[[SettingsT], Sequence[Need[Any]]]
    values: Callable[[ServiceContext[SettingsT]], Values]
    check: Callable[[SettingsT, Site, Path], Iterable[Finding]] = _no_findings
    secret_data: Callable[[ServiceContext[SettingsT]], Mapping[str, str]] | None = None
    issuer: Callable[[SettingsT, Site], Issuer] | None = None
    metrics_server: MetricsServer | None = None
    s3_endpoint: Callable[[SettingsT, Site], S3Endpoint] | None = None
    batch_server: Callable[[Site], BatchServer] | None = None
    dask_server: Callable[[Site], DaskServer] | None = None
    hub_server: Callable[[Site], HubServer] | None = None
    model_endpoint: Callable[[Site], ModelEndpoint] | None = None
    pod_annotations: Sequence[str] = ("podAnnotations",)
    questions: Sequence[Question] = ()
    leaving: Sequence[LeavingProgram] = ()

    @property
    def name(self) -> str:
        """Of the folder, the release, the image and the chart."""
        return self.folder.name

    @property
    def key(self) -> str:
        """Below `platform.services` of a site file."""
        return service_key(self.name)

    @property
    def section(self) -> type[BaseModel]:
        """The model of what a site file sets, `SECTION` of its settings.py."""
        return service_section(self.folder)

    @property
    def secret_name(self) -> str:
        """Of its Kubernetes Secret."""
        return f"{self.name}-secrets"

    @property
    def image_folders(self) -> dict[str, Path]:
        """Folders that its images are built from, by the image's short name in the registry."""
        own = {self.name: self.folder} if (self.folder / "Containerfile").is_file() else {}
        files = sorted(self.folder.glob("images/*/Containerfile"))
        return own | {f"{self.name}-{file.parent.name}": file.parent for file in files}

    def of(self, site: Site) -> SettingsT | None:
        """Its settings at a site, None where it is not installed."""
        settings: SettingsT | None = getattr(site.platform.services, self.key)
        return settings

    def namespace_of(self, site: Site) -> str:
        """Name of the namespace of its release and its Secret: its first need that makes one decides."""
        settings = self.of(site)
        needs = () if settings is None else self.needs(settings)
        return next((need.release_namespace for need in needs if need.release_namespace is not None), SYSTEM_NAMESPACE)
