"""Python dependencies of an image: what uv.lock pins by its hash, and packages of this repository."""

from __future__ import annotations

import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

from strata.errors import UserError


@dataclass(frozen=True)
class PythonPackages:
    """Python dependencies that go into the build context as the directory `site-packages`.

    Args:
        project: directory with pyproject.toml and uv.lock.
        python: version of the interpreter in the base image, "3.11".
    """

    project: Path
    python: str


def local_packages(project: Path) -> dict[str, Path]:
    """Packages that a project takes from folders of this repository (`[tool.uv.sources]`), by the name of the import.

    They have no hash in uv.lock: the image's content hash reads their files.

    Args:
        project: directory with uv.lock.
    """
    locked = tomllib.loads((project / "uv.lock").read_text()).get("package", [])
    folders = [source.get("editable") or source.get("directory") for source in (entry["source"] for entry in locked)]
    others = [(project / folder).resolve() for folder in folders if folder and folder != "."]
    return {file.parent.name: file.parent for other in others for file in other.glob("src/*/__init__.py")}


def install_packages(packages: PythonPackages, target: Path) -> None:
    """Puts a service's locked dependencies into a directory, for the base image's Python.

    Raises:
        UserError: uv refused; names the project.
    """
    export = [
        "uv", "export", "--quiet", "--frozen", "--no-dev", "--no-emit-project", "--no-emit-local", "--no-header",
        "--format=requirements-txt", f"--project={packages.project}",
    ]  # fmt: skip
    exported = subprocess.run(export, capture_output=True, text=True, check=False)
    result = exported
    if exported.returncode == 0:
        requirements = target.parent.parent / "requirements.txt"
        requirements.write_text(exported.stdout)
        install = [
            "uv", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes",
            f"--python-version={packages.python}", "--python-platform=x86_64-manylinux_2_36",
            f"--target={target}", f"--requirements={requirements}",
        ]  # fmt: skip
        result = subprocess.run(install, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise UserError(
            f"the Python dependencies of {packages.project} cannot be installed: {result.stderr.strip()[-1500:]}",
            fix="if the package index did not respond, run the same command again: what was downloaded is kept; else "
            f"`uv lock --project {packages.project}`, and see that each has a wheel for {packages.python}",
        )
