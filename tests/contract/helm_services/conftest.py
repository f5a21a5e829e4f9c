"""Fixtures: helm, and values that the charts accept."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.site.paths import REPOSITORY
from strata.site.secrets import pki

Objects = dict[tuple[str, str], dict[str, Any]]
"""Manifests by kind and name."""


class Refused(Exception):
    """What helm said."""


class Helm:
    """The pinned helm on our charts; values go in on standard input."""

    def __init__(self, binary: Path) -> None:
        self.binary = binary

    def run(self, values: dict[str, Any], *arguments: str) -> str:
        done = subprocess.run(
            [str(self.binary), *arguments, "--values", "-"],
            input=json.dumps(values), capture_output=True, text=True, check=False, cwd=REPOSITORY / "helm",
        )  # fmt: skip
        if done.returncode != 0:
            raise Refused(done.stdout + done.stderr)
        return done.stdout

    def text(self, chart: str, values: dict[str, Any], release: str | None = None) -> str:
        arguments = ("--namespace", "platform-services", "--kube-version", "1.35.4")
        return self.run(values, "template", release or chart, chart, *arguments)

    def template(self, chart: str, values: dict[str, Any], release: str | None = None) -> Objects:
        documents = [d for d in yaml.safe_load_all(self.text(chart, values, release)) if d]
        objects = {(d["kind"], d["metadata"]["name"]): d for d in documents}
        assert len(objects) == len(documents)
        return objects


@pytest.fixture(scope="session")
def helm() -> Helm:
    """The helm of the Python environment."""
    binary = Path(sys.executable).with_name("helm")
    if not binary.exists():
        pytest.skip("no helm in the Python environment (package helm-binary)")
    return Helm(binary)


@pytest.fixture(scope="session")
def authority() -> str:
    return pki.create_authority("charts")[0]


@pytest.fixture
def hub_values(authority: str) -> dict[str, Any]:
    """The least that helm/ml-hub wants."""
    return {
        "image": {"repository": "registry.lab.strata.test:5000/strata/ml-hub", "digest": "sha256:" + "a" * 64},
        "database": {"host": "services-1.lab.strata.test", "existingSecret": {"name": "database"}, "ca": authority},
        "issuer": {"url": "https://login.lab.strata.test"},
        "ingress": {"host": "ml-hub.lab.strata.test"},
        "catalogue": {"text": (REPOSITORY / "inventories/lab/catalogue.json").read_text()},
    }


@pytest.fixture
def issuer_values(authority: str) -> dict[str, Any]:
    """The least that helm/keycloak wants."""
    return {
        "image": {"repository": "registry.lab.strata.test:5000/strata/keycloak", "digest": "sha256:" + "b" * 64},
        "realm": "strata",
        "database": {"host": "10.77.0.11", "name": "keycloak", "user": "keycloak", "ca": authority},
        "ingress": {"host": "login.lab.strata.test"},
        "existingSecret": "keycloak-secrets",
    }


Change = Callable[[dict[str, Any]], object]
