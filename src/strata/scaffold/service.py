"""A new service: a folder in services/ and a chart in helm/, which work as they are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from strata.catalogue.discovery import services
from strata.errors import UserError
from strata.scaffold.copying import class_name, copy_template
from strata.scaffold.python_lock import complete_lock
from strata.service_modules import service_key
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
    key = service_key(name)
    targets = (repository / "services" / name, repository / "helm" / name)
    taken = [str(path) for path in targets if path.exists()]
    if key == "external_issuer" or key in {service.key for service in services()}:
        taken.append(f"platform.services.{key}")
    if taken:
        raise UserError(f"service folder {', '.join(taken)} exists already", fix="another name")
    words = dict(zip(WORDS, (name, key, key.upper(), class_name(name)), strict=True))
    for source, target in zip(("service", "chart"), targets, strict=True):
        copy_template(TEMPLATE / source, target, words)
    complete_lock(targets[0], repository / "services" / "http")
    subprocess.run([sys.executable, "-m", "strata.site_file.generate"], cwd=repository, check=True)
    return targets
