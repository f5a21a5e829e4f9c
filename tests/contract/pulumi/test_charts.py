"""The real helm renders every chart with the values that pulumi/platform gives it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.models import load_site
from strata.platform import cluster_base, ml_hub, tenant, token_issuer
from strata.platform.values import Values
from strata.site.outputs import CloudOutputs, ImageOutputs, InstanceOutput
from strata.site.paths import REPOSITORY

DIGEST = "sha256:" + "0" * 64
IMAGES = ImageOutputs(
    images={
        name: f"registry.example.org:5000/strata/{name}@{DIGEST}"
        for name in ("ml-hub", "token-issuer", "gpu-device-plugin", "traefik")
    }
)
SITE_FILE = REPOSITORY / "inventories" / "lab" / "site.yaml"


class Secrets:
    """Made-up secrets."""

    ca = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def get(self, name: str) -> str:
        return self.kept.setdefault(name, f"generated-{name}")

    def peek(self, name: str) -> str | None:
        return self.kept.get(name)

    def put(self, name: str, value: str) -> None:
        self.kept[name] = value


def values(chart: str) -> Values:
    """The lab's values of a chart."""
    site = load_site(SITE_FILE)
    services = site.platform.services
    assert site.cluster is not None
    assert services.token_issuer is not None
    assert services.ml_hub is not None
    database = InstanceOutput(id="1", name="services-1", address="10.0.0.5", flavor="cpu", roles=("postgresql",))
    if chart == "cluster-base":
        return cluster_base.values(site, site.cluster, IMAGES)
    if chart == "tenant":
        return tenant.values(site, site.platform.tenants[0])
    if chart == "token-issuer":
        return token_issuer.values(site, services.token_issuer, IMAGES, Secrets())
    return ml_hub.values(
        site,
        services.ml_hub,
        services.token_issuer,
        site_file=SITE_FILE,
        outputs=CloudOutputs(instances={"services-1": database}, networks={}),
        images=IMAGES,
        secrets=Secrets(),
    )


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


@pytest.mark.parametrize("chart", ["cluster-base", "tenant", "token-issuer", "ml-hub"])
def test_chart_renders_and_takes_images_by_digest(helm: str, chart: str) -> None:
    done = render(helm, chart, values(chart))
    assert done.returncode == 0, done.stderr
    found = objects(done.stdout)
    assert found
    for item in found.values():
        pod = item.get("spec", {}).get("template", {}).get("spec")
        for container in pod["containers"] if pod else ():
            assert container["image"].endswith(DIGEST)


def test_services_have_an_ingress_at_their_name(helm: str) -> None:
    for chart, host in (("ml-hub", "ml-hub.lab.strata.test"), ("token-issuer", "login.lab.strata.test")):
        found = objects(render(helm, chart, values(chart)).stdout)
        (spec,) = (o["spec"] for (kind, _), o in found.items() if kind == "Ingress")
        assert spec["ingressClassName"] == "traefik"
        assert [rule["host"] for rule in spec["rules"]] == [host]
        backend = spec["rules"][0]["http"]["paths"][0]["backend"]["service"]
        service = found["Service", backend["name"]]["spec"]
        assert service["type"] == "ClusterIP"
        assert backend["port"]["name"] in [p["name"] for p in service["ports"]]


def test_a_value_that_the_schema_refuses_stops_helm(helm: str) -> None:
    done = render(helm, "tenant", values("tenant") | {"typo": 1})
    assert done.returncode != 0
    assert "typo" in done.stderr
