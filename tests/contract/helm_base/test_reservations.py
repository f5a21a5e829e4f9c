"""A real API server counts reservations for the tenant's quota; only services make, change and delete them."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from strata.catalogue.needs import TenantQuota
from strata.catalogue.needs.tenant_quota import RESERVATION
from strata.retry import wait_until
from strata.toolchain import tools_environment
from strata_bench.api_server import ApiServer

from .test_charts import rendered, values_of
from .test_volumes import create

TENANT, GROUP = "reserving", "oidc:/tenants/research"
HUB = ("--as", "system:serviceaccount:jupyterhub:hub", "--as-group", "system:serviceaccounts:jupyterhub")
MEMBER = ("--as", "oidc:ada", "--as-group", GROUP, "--as-group", "system:authenticated")
LEADER = ("--as", "oidc:eve", *MEMBER[2:], "--as-group", f"{GROUP}/admins")
CONTROLLERS = ("--as-group", "system:serviceaccounts:kube-system", "--as-group", "system:authenticated")
NAMESPACES, JOBS = (
    ("--as", f"system:serviceaccount:kube-system:{name}-controller", *CONTROLLERS) for name in ("namespace", "job")
)
ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: mine}
rules: [{apiGroups: [""], resources: [pods], verbs: [reserve]}]
"""


def reservation(name: str, cpu: str = "1") -> dict[str, Any]:
    pod: dict[str, Any] = json.loads(json.dumps(TenantQuota("server", "jupyterhub", "hub").provide(None)))  # type: ignore[arg-type]  # it needs no context
    pod["metadata"]["name"] = f"reservation-{name}"
    image = "registry.example.org/notebook@sha256:" + "0" * 64
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    pod["spec"]["containers"][0] |= {"image": image, "resources": resources}
    return pod


def ordinary(name: str, **labels: str) -> dict[str, Any]:
    pod = reservation("")
    del pod["spec"]["schedulingGates"]
    pod["metadata"] = {"name": name, "labels": labels}
    return pod


@pytest.fixture(scope="module")
def server(api_server: ApiServer) -> ApiServer:
    """With the tenant's namespace, whose quota is active, and the policy of cluster-base."""
    manifests = [
        m for m in rendered("tenant", {**values_of("tenant"), "namespace": TENANT}) if m["kind"] != "NetworkPolicy"
    ]
    policies = [m for m in rendered("cluster-base") if m["metadata"]["name"].endswith("-reservations")]
    assert policies
    for manifest in sorted([*manifests, *policies], key=lambda m: m["kind"] != "Namespace"):
        done = create(api_server, manifest["metadata"].get("namespace", "default"), manifest)
        assert done.returncode == 0, done.stderr
    create(api_server, TENANT, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
    # no controller does it here
    for quota in json.loads(api_server.kubectl("get", "resourcequota", "-n", TENANT, "-o", "json"))["items"]:
        hard = quota["spec"]["hard"]
        status = json.dumps({"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}})
        where = ("-n", TENANT, "--subresource=status", "--type=merge", "-p", status)
        api_server.kubectl("patch", "resourcequota", quota["metadata"]["name"], *where)
    return api_server


def run(server: ApiServer, whom: tuple[str, ...], *arguments: str, given: object = None) -> str:
    """What kubectl states to someone who is not the administrator; empty if it succeeds."""
    done = subprocess.run(
        ["kubectl", "--kubeconfig", str(server.kubeconfig), "--namespace", TENANT, *whom, *arguments],
        input=given if isinstance(given, str) else json.dumps(given),
        env=tools_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr if done.returncode else ""


def made(server: ApiServer, whom: tuple[str, ...], pod: dict[str, Any]) -> str:
    return run(server, whom, "create", "-f", "-", given=pod)


def used(server: ApiServer) -> str:
    quota = json.loads(server.kubectl("get", "resourcequota", TENANT, "-n", TENANT, "-o", "json"))
    return str(quota["status"]["used"]["requests.cpu"])


def test_services_reserve_what_the_quota_has(server: ApiServer) -> None:
    before = int(used(server))
    assert made(server, HUB, reservation("jupyter-ada", "2")) == ""
    assert int(used(server)) == before + 2
    assert f"exceeded quota: {TENANT}" in made(server, HUB, reservation("jupyter-large", "1000"))
    (pod,) = json.loads(server.kubectl("get", "pods", "-n", TENANT, "-l", RESERVATION, "-o", "json"))["items"]
    (condition,) = (c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled")
    assert condition["reason"] == "SchedulingGated"
    assert run(server, HUB, "delete", "pod", "reservation-jupyter-ada") == ""


def test_members_keep_their_hands_off(server: ApiServer) -> None:
    assert made(server, HUB, reservation("jupyter-bob")) == ""

    def denied() -> str | None:
        output = run(server, MEMBER, "label", "pod", "reservation-jupyter-bob", "seen=yes", "--overwrite")
        return None if "reservations are for the site's services" in output else f"the policy to be observed: {output}"

    assert wait_until(denied, 120) is None
    name, ungate = "reservation-jupyter-bob", '[{"op": "remove", "path": "/spec/schedulingGates"}]'
    for whom in (MEMBER, LEADER):
        attempts = {
            "delete": run(server, whom, "delete", "pod", name),
            "delete all": run(server, whom, "delete", "pods", "--all"),
            "label": run(server, whom, "label", "pod", name, f"{RESERVATION}-"),
            "gates": run(server, whom, "patch", "pod", name, "--type=json", "-p", ungate),
            "a name": made(server, whom, ordinary("reservation-jupyter-eve")),
            "a reservation": made(server, whom, ordinary("mine", **{RESERVATION: "server"})),
        }
        possible = [what for what, said in attempts.items() if "reservations are for the site's services" not in said]
        assert not possible, {what: attempts[what] for what in possible}
    assert "reserve" in run(server, LEADER, "create", "-f", "-", given=ROLE), (
        "nobody gives rights that he does not have"
    )
    assert made(server, MEMBER, ordinary("work")) == ""
    assert run(server, MEMBER, "delete", "pod", "work") == ""


def test_a_namespace_that_is_deleted_loses_its_reservations(server: ApiServer) -> None:
    assert made(server, HUB, reservation("jupyter-carol")) == ""
    assert run(server, NAMESPACES, "delete", "pod", "reservation-jupyter-carol") == ""
    output = made(server, JOBS, ordinary("of-a-members-job", **{RESERVATION: "server"}))
    assert "reservations are for" in output
