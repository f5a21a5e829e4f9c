"""A real API server takes every object of the service charts, strictly and without a warning of Pod Security."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from strata.catalogue.discovery import services
from strata.catalogue.service import Service
from strata.platform.releases import releases
from strata.toolchain import load_versions, tools_environment
from strata.toolchain.charts import chart_directory

from ...unit.platform.test_values import SITES, state_of
from ..pulumi.conftest import ApiServer, api_server, tools
from .conftest import Helm

NAMESPACE = "platform-services"

__all__ = ["api_server", "tools"]  # fixtures


@pytest.fixture(scope="module")
def namespace(api_server: ApiServer) -> str:
    """A namespace that warns of pods below the restricted standard."""
    api_server.kubectl("create", "namespace", NAMESPACE)
    api_server.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/warn=restricted")
    return NAMESPACE


def dry_run(api_server: ApiServer, namespace: str, manifests: str) -> subprocess.CompletedProcess[str]:
    """What the API server says to the manifests."""
    return subprocess.run(
        [
            "kubectl", "--kubeconfig", str(api_server.kubeconfig), "--namespace", namespace,
            "apply", "--dry-run=server", "--validate=strict", "--filename", "-",
        ],
        input=manifests, env=tools_environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("case", ["ml-hub", "ml-hub from a hub", "ml-hub twice", "keycloak"])
def test_objects_are_taken_without_a_warning(
    helm: Helm,
    api_server: ApiServer,
    namespace: str,
    hub_values: dict[str, Any],
    issuer_values: dict[str, Any],
    case: str,
) -> None:
    chart, values = ("keycloak", issuer_values) if case == "keycloak" else ("ml-hub", hub_values)
    if case == "ml-hub twice":
        values["replicas"] = 2
        values["hostAliases"] = [{"ip": "10.77.0.5", "hostnames": ["services-1.lab.strata.test"]}]
    if case == "ml-hub from a hub":
        values["catalogue"] = {"source": "hub", "limit": 100}
    done = dry_run(api_server, namespace, helm.text(chart, values))
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    assert f"deployment.apps/{chart} created (server dry run)" in done.stdout


@pytest.mark.parametrize("service", services(), ids=lambda service: service.name)
def test_objects_of_the_lab_s_services_are_taken(
    helm: Helm, api_server: ApiServer, namespace: str, service: Service[Any]
) -> None:
    state = state_of(SITES["lab"])
    if service.of(state.site) is None:
        pytest.skip(f"the lab has no {service.name}")
    (release,) = (one for one in releases(state.site) if one.name == service.name)
    chart = str(chart_directory(release.chart)) if release.chart in load_versions().charts else release.chart
    done = dry_run(api_server, namespace, helm.text(chart, release.values(state), release.name))
    assert done.returncode == 0, done.stderr


def test_the_server_would_warn(
    helm: Helm, api_server: ApiServer, namespace: str, issuer_values: dict[str, Any]
) -> None:
    weakened = helm.text("keycloak", issuer_values).replace("runAsNonRoot: true", "runAsNonRoot: false")
    assert "would violate PodSecurity" in dry_run(api_server, namespace, weakened).stderr
    misspelt = helm.text("keycloak", issuer_values).replace("replicas:", "replica:")
    assert "unknown field" in dry_run(api_server, namespace, misspelt).stderr
