"""versions.yaml: every version, digest and source that uv.lock does not pin."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from strata.errors import UserError
from strata.site.paths import REPOSITORY
from strata.site_file.document import read_document
from strata.site_file.problems import SiteError, printable, shorten

VERSIONS_FILE = REPOSITORY / "versions.yaml"

Version = Annotated[str, StringConstraints(pattern=r"^\d+(\.\d+)+([.-][0-9A-Za-z]+)*$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Digest = Annotated[str, StringConstraints(pattern=r"^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$")]
Architecture = Annotated[str, StringConstraints(pattern=r"^(amd64|arm64)$")]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_ALWAYS = ("version", "major", "minor")
"""Placeholders of every template."""


def _check_placeholders(template: str, names: Sequence[str]) -> None:
    """Raises ValueError where a template asks for what is not filled in."""
    for _, name, _, _ in Formatter().parse(template):
        if name is not None and name not in names:
            raise ValueError(f"{template!r} has the placeholder {{{name}}}; there are {', '.join(names)}")


class Release(_Model):
    """The official download of a component."""

    url: Annotated[str, StringConstraints(pattern=r"^https://\S+$")] = Field(
        description="may contain {version} and {architecture}"
    )
    architecture: dict[Architecture, str] = Field(
        default_factory=dict, description="what the project calls an architecture, where it is not Go's name"
    )
    digest: dict[Architecture, Digest] = Field(
        default_factory=dict, description="of the downloaded file; without it the download is refused"
    )
    member: str | None = Field(
        default=None, description="path of {binary} inside the archive; none: the file is the binary"
    )


class Build(_Model):
    """How a component is built from its Go module."""

    directory: Path = Field(description="of go.mod, relative to the repository")
    module: str | None = Field(default=None, description="module that go.mod requires at the component's version")
    stamp: dict[str, str] = Field(
        default_factory=dict, description="Go string variables set at link time; {version}, {major}, {minor}"
    )
    companions: tuple[str, ...] = Field(
        default=(), description="files of the directory that must lie beside the binary"
    )


class Binary(_Model):
    """One executable of a component."""

    package: str | None = Field(default=None, description="Go package that builds it")
    version_command: tuple[str, ...] = Field(default=(), description="arguments that make it print its version")
    reproducible: dict[str, Sha256] = Field(
        default_factory=dict, description="digest of our own build by `<go version>/<architecture>`"
    )


class Component(_Model):
    """Binaries that share a version, a release and a build."""

    version: Version
    python_package: str | None = Field(default=None, description="package in uv.lock that must have the same version")
    release: Release | None = None
    build: Build | None = None
    substitute: str | None = Field(
        default=None, description="Python module that takes its place where it is not available"
    )
    on_demand: bool = Field(default=False, description="no site needs it: got only where it is asked for by name")
    binaries: dict[str, Binary] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Component:
        if self.release is None and self.build is None:
            raise ValueError("needs a release or a build")
        url, member = (self.release.url, self.release.member or "") if self.release else ("", "")
        _check_placeholders(url, (*_ALWAYS, "architecture", "binary"))
        _check_placeholders(member, (*_ALWAYS, "binary"))
        for stamp in self.build.stamp.values() if self.build else ():
            _check_placeholders(stamp, _ALWAYS)
        for name, binary in self.binaries.items():
            if self.build is not None and binary.package is None:
                raise ValueError(f"binaries.{name} needs a package to be built from")
            if len(self.binaries) > 1 and binary.package and binary.package.rsplit("/", 1)[-1] != name:
                raise ValueError(f"binaries.{name}: go build would call {binary.package} otherwise")
        return self

    def expand(self, template: str, **more: str) -> str:
        """Fills in {version}, {major}, {minor} and the placeholders given in `more`."""
        major, minor = self.version.split(".")[:2]
        return template.format(version=self.version, major=major, minor=minor, **more)


class Chart(_Model):
    """A Helm chart of another project."""

    repository: Annotated[str, StringConstraints(pattern=r"^(https://|oci://|http://127\.0\.0\.1[:/])\S+$")] = Field(
        description="Helm repository, or folder in a registry (oci://)"
    )
    version: Version
    digest: Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")] | None = Field(
        default=None, description="of the chart archive; without it the chart is not downloaded"
    )
    image_tags: dict[str, Annotated[str, StringConstraints(pattern=r"^[\w.-]+(@sha256:[0-9a-f]{64})?$")]] = Field(
        default_factory=dict, description="repository → tag of the project's images, where Strata builds none"
    )

    @property
    def oci(self) -> bool:
        """Whether the chart comes from a registry."""
        return self.repository.startswith("oci://")


class GitSource(_Model):
    """Files of a git repository."""

    repository: Annotated[str, StringConstraints(pattern=r"^https://\S+$")]
    commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
    digest: Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")] = Field(
        description="of `git archive --prefix=<name>-<version>/ <commit>`, before compression"
    )


class PythonEnvironment(_Model):
    """A Python program with an environment of its own."""

    version: Version
    lock: Path = Field(description="requirements with hashes, relative to the repository")
    collections: dict[str, Annotated[str, StringConstraints(pattern=r"^https://\S+,[0-9a-f]{40}$")]] = Field(
        default_factory=dict, description="Ansible collection → git repository and commit"
    )
    source: GitSource | None = Field(default=None, description="the program, if it is not a Python package")


class PinnedTool(_Model):
    """A binary and the version that it is pinned at."""

    name: str
    component: str
    version: str


class Versions(_Model):
    """The whole of versions.yaml."""

    packages: dict[str, Version] = Field(description="from the Python package registry, outside the project's venv")
    openstack: Version
    debian: dict[str, str] = Field(description="release → suite")
    nvidia: dict[str, Version] = Field(default_factory=dict, description="Debian packages of NVIDIA's archives")
    components: dict[str, Component]
    environments: dict[str, PythonEnvironment] = Field(
        default_factory=dict, description="Python programs, installed where a site asks for them"
    )
    charts: dict[str, Chart] = Field(default_factory=dict, description="Helm charts of other projects")

    @model_validator(mode="after")
    def _names_are_unique(self) -> Versions:
        seen: dict[str, str] = {}
        for component, definition in self.components.items():
            for name in definition.binaries:
                if other := seen.get(name):
                    raise ValueError(f"components.{component}.binaries.{name} is also one of components.{other}")
                seen[name] = component
        return self

    @property
    def tools(self) -> dict[str, PinnedTool]:
        """Every binary by its name, in the order of the file."""
        return {
            name: PinnedTool(name=name, component=component, version=definition.version)
            for component, definition in self.components.items()
            for name in definition.binaries
        }

    def select(self, names: Sequence[str] | None) -> dict[str, list[str]]:
        """Component → binaries asked for, in the order of the file.

        Args:
            names: binaries or components; None for all but those on demand.

        Raises:
            UserError: a name that is neither.
        """
        if names is None:
            return {
                name: list(component.binaries) for name, component in self.components.items() if not component.on_demand
            }
        tools, selected = self.tools, set[str]()
        for name in names:
            if name in tools:
                selected.add(name)
            elif name in self.components:
                selected.update(self.components[name].binaries)
            else:
                known = ", ".join(sorted({*tools, *self.components}))
                raise UserError(f"versions.yaml pins no tool {name!r}", fix=f"one of: {known}")
        picked = {
            component: [name for name in definition.binaries if name in selected]
            for component, definition in self.components.items()
        }
        return {component: binaries for component, binaries in picked.items() if binaries}


def _describe(file: Path, error: ValidationError) -> str:
    lines = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"]) or "(the file)"
        value = f" = {shorten(problem['input'])}" if isinstance(problem["input"], str | int | float) else ""
        lines.append(printable(f"{file.name}: {key[:200]}{value}: {problem['msg']}"))
    return "\n".join(lines)


@cache
def load_versions(file: Path = VERSIONS_FILE) -> Versions:
    """Reads versions.yaml.

    Raises:
        UserError: the file is missing, is not YAML, or has a wrong key or value; names each of them.
    """
    if not file.is_file():
        raise UserError(
            f"{file}: No such file",
            fix="restore it: git checkout -- versions.yaml",
            see="versionsyaml-has-errors",
        )
    try:
        document = read_document(file)
        if document.mistakes:
            raise SiteError(document.mistakes)
    except SiteError as error:
        fix = "fix the YAML at this place; docs/toolchain.md describes the keys"
        raise UserError(error.message, fix=fix, see="versionsyaml-has-errors") from None
    try:
        return Versions.model_validate(document.data)
    except ValidationError as error:
        raise UserError(
            _describe(file, error), fix="docs/toolchain.md describes the keys", see="versionsyaml-has-errors"
        ) from None


def architecture() -> str:
    """This machine's architecture by Go's name.

    Raises:
        UserError: no tool is pinned for it.
    """
    names = {"x86_64": "amd64", "aarch64": "arm64"}
    try:
        return names[platform.machine()]
    except KeyError:
        raise UserError(
            f"the tools are pinned for x86_64 and aarch64, this machine is {platform.machine()}",
            fix="use a machine of one of these architectures",
        ) from None


def go_directive(go_mod: Path) -> tuple[int, ...]:
    """The least Go version that a go.mod asks for, as a tuple of numbers."""
    match = re.search(r"^go (\d+(?:\.\d+)*)", go_mod.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise UserError(f"{go_mod} has no go line", fix="add one, for example: go 1.26")
    return tuple(int(part) for part in match[1].split("."))
