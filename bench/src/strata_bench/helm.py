"""The pinned helm on this repository's charts, in tests."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from strata.site.paths import REPOSITORY

Objects = dict[tuple[str, str], dict[str, Any]]
"""Manifests by kind and name."""


class HelmRefused(Exception):
    """helm's output."""


class Helm:
    """Runs helm in helm/; values go in on standard input."""

    def __init__(self, binary: Path) -> None:
        self.binary = binary

    def run(self, values: dict[str, Any], *arguments: str) -> str:
        """Returns the standard output.

        Raises:
            HelmRefused: helm failed.
        """
        done = subprocess.run(
            [str(self.binary), *arguments, "--values", "-"],
            input=json.dumps(values), capture_output=True, text=True, check=False, cwd=REPOSITORY / "helm",
        )  # fmt: skip
        if done.returncode != 0:
            raise HelmRefused(done.stdout + done.stderr)
        return done.stdout

    def text(self, chart: str, values: dict[str, Any], release: str | None = None) -> str:
        """The rendered chart."""
        arguments = ("--namespace", "platform-services", "--kube-version", "1.35.4")
        return self.run(values, "template", release or chart, chart, *arguments)

    def template(self, chart: str, values: dict[str, Any], release: str | None = None) -> Objects:
        """The objects of the rendered chart."""
        documents = [d for d in yaml.safe_load_all(self.text(chart, values, release)) if d]
        objects = {(d["kind"], d["metadata"]["name"]): d for d in documents}
        assert len(objects) == len(documents)
        return objects
