"""The real helm renders every chart with the values that pulumi/platform gives it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.catalogue.service import Values
from strata.platform.releases import Release, releases
from strata.site.paths import REPOSITORY

from ...unit.platform.test_values import DIGEST, state_of

STATE = state_of(REPOSITORY / "inventories" / "lab" / "site.yaml")
RELEASES = [release for release in releases(STATE.site) if release.chart_source.startswith("helm/")]


def render(helm: str, chart: str, given: Values) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [helm, "template", "release", str(REPOSITORY / "helm" / chart), "--values", "-"],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
    )


def objects(text: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(text) if o}


@pytest.fixture(scope="module")
def helm() -> str:
    """The helm of the Python environment."""
    return str(Path(sys.executable).parent / "helm")


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_chart_renders_and_takes_images_by_digest(helm: str, release: Release) -> None:
    done = render(helm, release.chart, release.values(STATE))
    assert done.returncode == 0, done.stderr
    found = objects(done.stdout)
    assert found
    for item in found.values():
        pod = item.get("spec", {}).get("template", {}).get("spec")
        for container in pod["containers"] if pod else ():
            assert container["image"].endswith(DIGEST)


@pytest.mark.parametrize("release", [r for r in RELEASES if r.address], ids=lambda release: release.name)
def test_services_have_an_ingress_at_their_name(helm: str, release: Release) -> None:
    found = objects(render(helm, release.chart, release.values(STATE)).stdout)
    (spec,) = (o["spec"] for (kind, _), o in found.items() if kind == "Ingress")
    assert spec["ingressClassName"] == "traefik"
    assert [f"https://{rule['host']}/" for rule in spec["rules"]] == [release.address]
    backend = spec["rules"][0]["http"]["paths"][0]["backend"]["service"]
    service = found["Service", backend["name"]]["spec"]
    assert service["type"] == "ClusterIP"
    assert backend["port"]["name"] in [p["name"] for p in service["ports"]]


def test_a_value_that_the_schema_refuses_stops_helm(helm: str) -> None:
    tenant = next(r for r in RELEASES if r.chart == "tenant")
    done = render(helm, "tenant", tenant.values(STATE) | {"typo": 1})
    assert done.returncode != 0
    assert "typo" in done.stderr
