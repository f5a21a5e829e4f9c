"""A directory of tools that a site keeps for machines without the internet.

<mirror>/<component>/<version>/<file name of the official release>
<mirror>/<component>/<version>/linux-<architecture>/<binary>
<mirror>/<component>/<version>/linux-<architecture>/SHA256SUMS
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from strata.errors import UserError
from strata.toolchain.cache import Tool, file_digest
from strata.toolchain.release import Unavailable, check_digest, release_url, unpack
from strata.toolchain.versions import Component, Versions, architecture

SUMS = "SHA256SUMS"


def _read_sums(file: Path) -> dict[str, str]:
    if not file.is_file():
        return {}
    pairs = (line.split(maxsplit=1) for line in file.read_text(encoding="utf-8").splitlines() if line.strip())
    return {name.lstrip("*"): digest for digest, name in pairs}


def _from_release(directory: Path, component: Component, binaries: list[str], into: Path) -> dict[str, Path] | None:
    release = component.release
    if release is None:
        return None
    file = directory / release_url(component, release, binaries[0]).rsplit("/", 1)[-1]
    if not file.is_file():
        return None
    digest = release.digest.get(architecture())
    if digest is None:
        raise UserError(
            f"{file}: versions.yaml pins no digest of this release for {architecture()}",
            fix="add the published digest to versions.yaml, or put the binaries and their SHA256SUMS into the mirror",
        )
    if problem := check_digest(file, digest):
        raise UserError(f"{file} is refused: {problem}", fix="replace the file in the mirror by the official release")
    return unpack(file, component, release, binaries, into)


def fetch(mirror: Path | None, name: str, component: Component, binaries: list[str], into: Path) -> dict[str, Path]:
    """Binaries of a component from the mirror.

    Args:
        mirror: the directory; None if the site has none.
        name: the component's.
        into: an empty directory that receives copies.

    Raises:
        Unavailable: the mirror does not have all of them.
        UserError: what it has, has a wrong digest, or none to check.
    """
    if mirror is None:
        raise Unavailable("no mirror is set")
    if not mirror.is_dir():
        raise UserError(f"the mirror {mirror} is not a directory", fix="correct STRATA_MIRROR, or unset it")
    directory = mirror / name / component.version
    if (paths := _from_release(directory, component, binaries, into)) is not None:
        return paths
    directory /= f"linux-{architecture()}"
    if missing := [binary for binary in binaries if not (directory / binary).is_file()]:
        raise Unavailable(f"{directory} holds no {', '.join(missing)}")
    sums = _read_sums(directory / SUMS)
    for binary in binaries:
        file = directory / binary
        pinned = {*component.binaries[binary].reproducible.values(), *([sums[binary]] if binary in sums else [])}
        digest = file_digest(file)
        if not pinned:
            raise UserError(
                f"{file}: its digest is not pinned",
                fix=f"write it into {directory / SUMS}: cd {directory} && sha256sum {binary} >> {SUMS}",
            )
        if digest not in pinned:
            raise UserError(
                f"{file} is refused: it has sha256 {digest}, expected {' or '.join(sorted(pinned))}",
                fix=f"replace the file, or correct {directory / SUMS}",
            )
        shutil.copyfile(file, into / binary)
    return {binary: into / binary for binary in binaries}


def write(mirror: Path, tools: Iterable[Tool], versions: Versions) -> None:
    """Adds tools to a mirror, each directory with its SHA256SUMS.

    Args:
        mirror: the directory; made when it is missing.
    """
    pinned = versions.tools
    for tool in tools:
        directory = mirror / pinned[tool.name].component / tool.version / f"linux-{architecture()}"
        directory.mkdir(parents=True, exist_ok=True)
        shutil.copy2(tool.path, directory / tool.name)
        sums = _read_sums(directory / SUMS) | {tool.name: tool.sha256}
        text = "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items()))
        (directory / SUMS).write_text(text, encoding="utf-8")
