"""A real API server and controller manager keep tenants out of the platform's priority classes."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator

import pytest
import yaml

from strata.toolchain import tools_environment
from strata_bench.api_server import ApiServer
from strata_bench.waiting import eventually

from .test_charts import rendered, values_of

TENANT = "priorities"
QUOTA = ("get", "resourcequota", "--namespace", TENANT, "--output=jsonpath={.items[*].status.hard.pods}")


@pytest.fixture
def tenant(api_server: ApiServer) -> Iterator[ApiServer]:
    """A cluster with the priority classes and a tenant, whose quotas are counted."""
    program = shutil.which("kube-controller-manager", path=tools_environment()["PATH"])
    if program is None:
        pytest.skip("kube-controller-manager is not built; `strata up` gets it")
    kinds = ("Namespace", "ResourceQuota", "PriorityClass")
    charts = {"tenant": values_of("tenant") | {"namespace": TENANT}, "cluster-base": None}
    objects = [item for chart, values in charts.items() for item in rendered(chart, values) if item["kind"] in kinds]
    manifests = yaml.safe_dump_all(sorted(objects, key=lambda item: kinds.index(item["kind"])))
    apply = ["kubectl", "--kubeconfig", str(api_server.kubeconfig), "apply", "--filename", "-"]
    subprocess.run(apply, input=manifests, text=True, check=True, env=tools_environment())
    command = [program, f"--kubeconfig={api_server.kubeconfig}", "--controllers=resourcequota-controller"]
    with subprocess.Popen(
        [*command, "--leader-elect=false", "--secure-port=0"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as controllers:
        try:
            eventually(lambda: len(api_server.kubectl(*QUOTA).split()) >= 2, 180, "the quotas are counted")
            yield api_server
        finally:
            controllers.terminate()
    api_server.kubectl("delete", "namespace", TENANT, "--wait=false")


def test_tenants_have_interactive_and_batch_only(tenant: ApiServer) -> None:
    allowed = {}
    for name in ("platform", "system-cluster-critical", "system-node-critical", "interactive", "batch"):
        resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
        containers = [{"name": "main", "image": "none", "resources": resources}]
        spec = {"priorityClassName": name, "containers": containers}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        command = ["kubectl", "--kubeconfig", str(tenant.kubeconfig), "--namespace", TENANT, "create"]
        done = subprocess.run(
            [*command, "--dry-run=server", "--filename", "-"],
            input=json.dumps(pod),
            env=tools_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        allowed[name] = done.returncode == 0
        assert allowed[name] or "forbidden-priority-classes" in done.stderr, done.stderr
    assert [name for name, ok in allowed.items() if ok] == ["interactive", "batch"]
