"""The storage class `nfs` with the substitute for csi-driver-nfs: its provisioner at a real API server."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from strata.platform.storage_class import CHART, values
from strata.retry import wait_until
from strata.site.paths import REPOSITORY
from strata_bench.api_server import TOKEN, ApiServer
from strata_bench.module_file import load_module

from ...unit.platform.test_values import DIGEST, SITES, state_of
from ..helm_base.test_charts import rendered

SUBSTITUTE = REPOSITORY / "lab" / "charts" / CHART
PROVISIONER = SUBSTITUTE / "files" / "provisioner.py"
HELM = Path(sys.executable).with_name("helm")
Object = dict[str, Any]


def objects() -> list[Object]:
    """Of the substitute, with Strata's values for the lab."""
    state = state_of(SITES["lab"])
    settings = state.site.platform.storage_class
    assert settings is not None
    given = json.dumps(values(state.site, settings, state.images.images))
    command = [str(HELM), "template", CHART, str(SUBSTITUTE), "--namespace", "kube-system", "--values", "-"]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [item for item in yaml.safe_load_all(done.stdout) if item]


def claim(name: str, size: str = "1Gi", **spec: object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": size}}, **spec},
    }


@dataclass
class Cluster:
    """An API server with the storage class, and the export's directory under a running provisioner."""

    server: ApiServer
    export: Path

    def create(self, namespace: str, item: Object) -> Object:
        file = self.export.parent / "object.json"
        file.write_text(json.dumps(item))
        return dict(
            json.loads(
                self.server.kubectl("-n", namespace, "create", "-f", str(file), "-o", "json", "--validate=strict")
            )
        )

    def volumes(self) -> dict[str, Object]:
        """By the claim that each is for, `namespace/name`."""
        items = json.loads(self.server.kubectl("get", "persistentvolumes", "-o", "json"))["items"]
        return {f"{v['spec']['claimRef']['namespace']}/{v['spec']['claimRef']['name']}": v for v in items}

    def volume(self, key: str) -> Object:
        """Once the provisioner has made it."""
        why = wait_until(lambda: None if key in self.volumes() else f"a volume for {key}", 60, pause=0.2)
        assert why is None, why
        return self.volumes()[key]


@pytest.fixture(scope="module")
def cluster(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("provisioner")
    export, account = directory / "export", directory / "account"
    export.mkdir()
    account.mkdir()
    config = yaml.safe_load(api_server.kubeconfig.read_text())["clusters"][0]["cluster"]
    (account / "ca.crt").write_bytes(base64.b64decode(config["certificate-authority-data"]))
    (account / "token").write_text(TOKEN)
    storage_class = next(o for o in objects() if o["kind"] == "StorageClass")
    prepared = Cluster(api_server, export)
    prepared.create("default", storage_class)
    for namespace in ("alpha", "beta", "gamma"):
        api_server.kubectl("create", "namespace", namespace)
    url = urlsplit(config["server"])
    place = {"KUBERNETES_SERVICE_HOST": str(url.hostname), "KUBERNETES_SERVICE_PORT": str(url.port)}
    environment = {**os.environ, **place, "ACCOUNT": str(account)}
    with subprocess.Popen([sys.executable, str(PROVISIONER), str(export)], env=environment) as process:
        yield prepared
        process.terminate()


@pytest.fixture
def provisioner() -> ModuleType:
    return load_module(PROVISIONER)


def test_api_server_accepts_the_objects(api_server: ApiServer) -> None:
    api_server.kubectl("create", "namespace", "accepts")
    for item in objects():
        done = api_server.dry_run(item["metadata"].get("namespace", "accepts"), yaml.safe_dump(item))
        assert done.returncode == 0, done.stderr


def test_pod_is_the_sites_image_and_the_class_is_the_default() -> None:
    (deployment,) = (o for o in objects() if o["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"registry.example.org:5000/strata/pod-base@{DIGEST}"
    (item,) = (o for o in objects() if o["kind"] == "StorageClass")
    assert item["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}


def test_claims_get_folders_of_their_own(cluster: Cluster) -> None:
    """Without a class in the claim; of the same name in two namespaces."""
    folders = set()
    for namespace in ("alpha", "beta"):
        made = cluster.create(namespace, claim("data", "2Gi"))
        assert made["spec"]["storageClassName"] == "nfs"
        volume = cluster.volume(f"{namespace}/data")
        uid, spec = made["metadata"]["uid"], volume["spec"]
        assert spec["claimRef"]["uid"] == uid
        assert spec["nfs"] == {"server": "nfs.lab.strata.test", "path": f"/claims/{namespace}-data-pvc-{uid}"}
        assert spec["capacity"] == {"storage": "2Gi"}
        assert spec["persistentVolumeReclaimPolicy"] == "Delete"
        assert {"nosuid", "nodev", "hard"} <= set(spec["mountOptions"])
        folder = cluster.export / f"{namespace}-data-pvc-{uid}"
        assert folder.stat().st_mode & 0o7777 == 0o777
        folders.add(folder)
    assert len(folders) == 2


def test_claims_for_others_get_none(cluster: Cluster) -> None:
    cluster.create("alpha", claim("static", storageClassName=""))
    cluster.create("alpha", claim("foreign", storageClassName="local"))
    cluster.create("alpha", claim("thief", storageClassName="nfs", volumeName="beta-homes"))
    cluster.create("alpha", claim("chooser", storageClassName="nfs", selector={"matchLabels": {"a": "b"}}))
    source = {"kind": "PersistentVolumeClaim", "name": "data"}
    cluster.create("alpha", claim("copy", storageClassName="nfs", dataSource=source))
    cluster.create("alpha", claim("last"))
    cluster.volume("alpha/last")
    assert not {"alpha/static", "alpha/foreign", "alpha/thief", "alpha/chooser", "alpha/copy"} & set(cluster.volumes())


def test_folder_goes_with_the_claim_and_nothing_else(cluster: Cluster, tmp_path: Path) -> None:
    """A link in it leads out of the folder, and is not followed."""
    cluster.create("beta", claim("gone"))
    cluster.create("beta", claim("stays"))
    gone, stays = (cluster.volume(f"beta/{name}") for name in ("gone", "stays"))
    folder = cluster.export / gone["spec"]["nfs"]["path"].rpartition("/")[2]
    (tmp_path / "file").write_text("kept")
    (folder / "link").symlink_to(tmp_path)
    (folder / "deep" / "er").mkdir(parents=True)
    released = json.dumps({"status": {"phase": "Released"}})
    name = gone["metadata"]["name"]
    cluster.server.kubectl("patch", "persistentvolume", name, "--subresource=status", "--type=merge", "-p", released)
    # the finalizer is the controller manager's to remove, which does not run here
    cluster.server.kubectl(
        "patch", "persistentvolume", name, "--type=merge", "-p", '{"metadata": {"finalizers": null}}'
    )
    why = wait_until(lambda: "the volume to go" if "beta/gone" in cluster.volumes() else None, 60, pause=0.2)
    assert why is None, why
    assert not folder.exists()
    assert (tmp_path / "file").read_text() == "kept"
    assert (cluster.export / stays["spec"]["nfs"]["path"].rpartition("/")[2]).is_dir()


@pytest.mark.parametrize("path", ["/claims", "/claims/..", "/claims/.", "/claims/", "/claims/other", "/homes/ada"])
def test_other_folders_are_not_deleted(provisioner: ModuleType, path: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    volume = {"metadata": {"name": "pvc-1"}, "spec": {"nfs": {"path": path}}}
    with pytest.raises(ValueError, match="is not one of here"):
        provisioner.delete(None, volume, tmp_path)
    assert (tmp_path / "other").is_dir()


@pytest.mark.parametrize("template", ["../${pv.metadata.name}", "/${pv.metadata.name}", ".${pv.metadata.name}", "a/b"])
def test_a_folder_is_not_a_path(provisioner: ModuleType, template: str) -> None:
    item = {"metadata": {"namespace": "alpha", "name": "data"}}
    with pytest.raises(ValueError, match="the folder would be"):
        provisioner.folder(item, "pvc-1", {"subDir": template})


def test_quota_counts_claims_of_the_class(cluster: Cluster) -> None:
    """The API server's own admission, with the quota of helm/tenant: 100Gi in these values."""
    quota = next(o for o in rendered("tenant") if (o["kind"], o["metadata"]["name"]) == ("ResourceQuota", "research"))
    quota["metadata"]["namespace"] = "gamma"  # other tests at this API server have pods in research
    cluster.create("gamma", quota)
    hard = quota["spec"]["hard"]
    # the controller manager's work, which does not run here
    status = json.dumps({"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}})
    patch = ("patch", "resourcequota", "research", "--subresource=status", "--type=merge", "-p", status)
    cluster.server.kubectl("-n", "gamma", *patch)
    cluster.create("gamma", claim("most", "90Gi"))
    file = cluster.export.parent / "more.json"
    file.write_text(json.dumps(claim("more", "11Gi")))
    done = cluster.server.dry_run("gamma", file.read_text())
    assert done.returncode != 0
    assert "nfs.storageclass.storage.k8s.io/requests.storage=11Gi" in done.stderr
    cluster.create("gamma", claim("rest", "10Gi"))
