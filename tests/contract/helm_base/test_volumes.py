"""A real API server binds the volumes' claims as written, and refuses pods that name an NFS server."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
import yaml

from strata.retry import wait_until
from strata.toolchain import tools_environment
from strata_bench.api_server import ApiServer

from .test_charts import rendered

CLAIM = {"persistentVolumeClaim": {"claimName": "homes"}}
INLINE = {"nfs": {"server": "nfs.example.org", "path": "/homes"}}
BY_DRIVER = {"csi": {"driver": "nfs.csi.k8s.io", "volumeAttributes": {"server": "nfs.example.org", "share": "/"}}}


def create(server: ApiServer, namespace: str, *manifests: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    command = ["kubectl", "--kubeconfig", str(server.kubeconfig), "--namespace", namespace]
    return subprocess.run(
        [*command, "apply", "--validate=strict", "--filename", "-"],
        input=yaml.safe_dump_all(manifests),
        env=tools_environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def pod(volume: dict[str, Any], name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "registry.example.org/c@sha256:" + "0" * 64}
    spec = {"containers": [container], "volumes": [{"name": "v", **volume}], "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def namespace(api_server: ApiServer) -> str:
    """A namespace with the service account that pods need, under the policy of cluster-base."""
    name = "volumes"
    api_server.kubectl("create", "namespace", name)
    policies = [m for m in rendered("cluster-base") if m["kind"].startswith("ValidatingAdmissionPolicy")]
    for manifest in policies:
        done = create(api_server, name, manifest)
        assert done.returncode == 0, done.stderr
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    create(api_server, name, account)
    return name


def test_a_pod_mounts_nfs_by_a_claim_only(api_server: ApiServer, namespace: str) -> None:
    def accepted() -> str | None:
        done = create(api_server, namespace, pod(INLINE, "inline"))
        api_server.kubectl("--namespace", namespace, "delete", "pod", "inline", "--ignore-not-found", "--now")
        return None if done.returncode else "the policy to be observed"

    assert wait_until(accepted, 120) is None
    for name, volume in (("inline", INLINE), ("driver", BY_DRIVER)):
        done = create(api_server, namespace, pod(volume, name))
        assert "mount NFS by a PersistentVolumeClaim" in done.stderr, done.stderr
    done = create(api_server, namespace, pod(CLAIM, "claim"), pod({"emptyDir": {}}, "empty"))
    assert done.returncode == 0, done.stderr


def test_claims_and_volumes_are_accepted(api_server: ApiServer) -> None:
    manifests = rendered("shared-volumes")
    for name in {m["metadata"]["namespace"] for m in manifests if "namespace" in m["metadata"]}:
        api_server.kubectl("create", "namespace", name)
    for manifest in manifests:
        done = create(api_server, manifest["metadata"].get("namespace", "default"), manifest)
        assert done.returncode == 0, done.stderr
    volumes = json.loads(api_server.kubectl("get", "persistentvolumes", "--output", "json"))["items"]
    assert {v["spec"]["claimRef"]["namespace"] for v in volumes} == {"strata-system", "research"}
