"""A new service: a folder in services/ and a chart in helm/, which work as they are."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from strata.catalogue.discovery import services
from strata.errors import UserError
from strata.scaffold.python_lock import complete_lock
from strata.site.paths import REPOSITORY

TEMPLATE = Path(__file__).parent / "templates"
MAXIMUM_LENGTH = 32
"""Characters of a name; Grafana allows 40 for the id of its dashboard, which begins with strata-."""
WORDS = ("example-service", "example_service", "EXAMPLE_SERVICE", "ExampleService")


def new_service(name: str, repository: Path = REPOSITORY) -> tuple[Path, Path]:
    """Writes a service, and the reference that is generated from the catalogue.

    Args:
        name: of the service.
        repository: where it goes.

    Returns:
        Its folder and its chart.

    Raises:
        UserError: the name cannot be used.
    """
    if not re.fullmatch("[a-z]([a-z0-9-]*[a-z0-9])?", name) or "--" in name or len(name) > MAXIMUM_LENGTH:
        raise UserError(
            f"{name!r}: a service's name must be lower-case letters, digits and single dashes, begin with a letter and "
            f"have at most {MAXIMUM_LENGTH} characters",
            fix="for instance model-registry",
            see="a-new-service-cannot-be-written",
        )
    key = name.replace("-", "_")
    targets = (repository / "services" / name, repository / "helm" / name)
    taken = [str(path) for path in targets if path.exists()]
    if key == "external_issuer" or key in {service.key for service in services()}:
        taken.append(f"platform.services.{key}")
    if taken:
        raise UserError(f"service folder {', '.join(taken)} exists already", fix="another name")
    words = (name, key, key.upper(), "".join(part.capitalize() for part in name.split("-")))
    replacements = dict(zip(WORDS, words, strict=True))
    for source, target in zip(("service", "chart"), targets, strict=True):
        _copy(TEMPLATE / source, target, replacements)
    complete_lock(targets[0], repository / "services" / "http")
    subprocess.run([sys.executable, "-m", "strata.site_file.generate"], cwd=repository, check=True)
    return targets


def _copy(source: Path, target: Path, replacements: dict[str, str]) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    # the deepest first, so that a renamed folder does not move what is still to be renamed
    for path in sorted(target.rglob("*"), key=lambda p: len(p.parts), reverse=True):
        if path.is_file():
            path.write_text(_replaced(path.read_text(), replacements))
        path.rename(path.with_name(_replaced(path.name, replacements)))


def _replaced(text: str, replacements: dict[str, str]) -> str:
    for word, value in replacements.items():
        text = text.replace(word, value)
    return text
