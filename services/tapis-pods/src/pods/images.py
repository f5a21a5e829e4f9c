"""Names of container images, and a tenant's list of those it may run."""

from __future__ import annotations

import re
from dataclasses import dataclass

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_HOST = r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*(?::[0-9]{1,5})?"
_REFERENCE = re.compile(
    rf"(?P<repository>(?:{_HOST}/)?{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
LONGEST = 400
DOCKER_HUB = "docker.io"


@dataclass(frozen=True)
class Image:
    """An image.

    Args:
        repository: with its registry.
        version: ":tag", "@digest" or both.
    """

    repository: str
    version: str

    @classmethod
    def parse(cls, text: str) -> Image:
        """Short names are Docker Hub's, as with docker and podman.

        Raises:
            ValueError: it is not the name of an image.
        """
        match = _REFERENCE.fullmatch(text) if len(text) <= LONGEST else None
        if match is None:
            raise ValueError("is not an image: registry/repository, then :tag, @sha256:digest or both")
        tag, digest = match["tag"], match["digest"]
        version = (f":{tag}" if tag else "") + (f"@{digest}" if digest else "")
        return cls(full_name(match["repository"]), version or ":latest")

    def __str__(self) -> str:
        return self.repository + self.version


def full_name(repository: str) -> str:
    """With the registry, and Docker Hub's `library` where there is no account."""
    first, slash, rest = repository.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return repository if first != DOCKER_HUB or "/" in rest else f"{DOCKER_HUB}/library/{rest}"
    return f"{DOCKER_HUB}/{repository}" if slash else f"{DOCKER_HUB}/library/{repository}"


@dataclass(frozen=True)
class ImageList:
    """Images that may be run.

    Args:
        entries: repositories; one that ends with / allows all below it.
    """

    entries: tuple[str, ...]

    def allows(self, image: Image) -> bool:
        """Whether an entry is its repository or a folder above; tag and digest do not count."""
        return any(
            image.repository.startswith(entry) if entry.endswith("/") else image.repository == full_name(entry)
            for entry in self.entries
        )

    def __str__(self) -> str:
        return ", ".join(self.entries) or "none"
