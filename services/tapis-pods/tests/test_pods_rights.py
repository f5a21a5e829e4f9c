"""What the charts let the two service accounts do, asked of a real API server, and what a pod may not do."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata_bench.api_server import ApiServer

from .conftest import StartReconciler
from .kubelet import Kubelet
from .test_pods_life import objects
from .users import User


@pytest.mark.parametrize(
    ("part", "verb", "what"),
    [
        ("api", "list", "pods"),
        ("api", "create", "pods"),
        ("api", "create", "pods --subresource=attach"),
        ("api", "get", "secrets"),
        ("reconciler", "create", "pods --subresource=exec"),
        ("reconciler", "get", "secrets"),
        ("reconciler", "create", "networkpolicies"),
        ("reconciler", "create", "rolebindings"),
        ("reconciler", "update", "resourcequotas"),
        ("reconciler", "create", "ingressroutes.traefik.io"),
        ("reconciler", "create", "tlsoptions.traefik.io"),
        ("api", "create", "ingressroutetcps.traefik.io"),
    ],
)
def test_they_may_do_no_more(api_server: ApiServer, accounts: dict[str, Path], part: str, verb: str, what: str) -> None:
    for namespace in ("research", "strata-system"):
        answer = api_server.kubectl(
            "--kubeconfig", str(accounts[part]), "-n", namespace, "auth", "can-i", verb, *what.split(), check=False
        )
        assert answer.strip() == "no"


@pytest.mark.parametrize("what", ["pods", "services", "ingresses", "ingressroutetcps.traefik.io"])
def test_the_reconciler_has_no_rights_elsewhere(api_server: ApiServer, accounts: dict[str, Path], what: str) -> None:
    for namespace in ("strata-system", "kube-system", "default"):
        answer = api_server.kubectl(
            "--kubeconfig", str(accounts["reconciler"]), "-n", namespace, "auth", "can-i", "create", what, check=False
        )
        assert answer.strip() == "no"


def test_a_pod_has_no_rights(
    alice: User, start_reconciler: StartReconciler, kubelet: Kubelet, api_server: ApiServer
) -> None:
    with start_reconciler():
        alice.create("web1", command=["sh", "-c", "id"], arguments=["$(HOME)"])
        alice.wait("web1", "AVAILABLE")
    (pod,) = objects(api_server, "pods")
    spec = pod["spec"]
    (container,) = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert not spec.get("volumes")
    assert not {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"} & {k for k, v in spec.items() if v}
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "privileged": False, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert container["resources"]["limits"] == {"cpu": "2", "memory": "3Gi"}
