"""Datasets on NFS in a real JupyterHub: folders that the site allows, and servers that do not respond."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.catalogue.service import Service
from strata.catalogue.site_volumes import volumes
from strata.platform import shared_volumes
from strata.site.secrets import pki
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError
from strata_services.jupyterhub.service import SERVICE

from .datasets import files, init, register
from .running_hub import ENDPOINTS, NFS, NFS_DOWN, Hub

hub_group = pytest.mark.xdist_group("jupyterhub-hub")
NFS_PORT = 2049


@contextmanager
def nfs_server(address: str, *, silent: bool = False) -> Iterator[None]:
    """Responds to the procedure NULL of NFS, or accepts connections only."""
    listener = socket.create_server((address, NFS_PORT))

    def serve() -> None:
        held = []
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            held.append(connection)
            if silent:
                continue
            call = struct.unpack(">11I", connection.recv(44))
            # one record, program 100003 (NFS) version 4, procedure 0
            if (call[0], call[2:7]) == (1 << 31 | 40, (0, 2, 100003, 4, 0)):
                connection.sendall(struct.pack(">7I", 1 << 31 | 24, call[1], 1, 0, 0, 0, 0))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def claims(pod: dict[str, Any]) -> dict[str, tuple[str, bool]]:
    """Mount path below /datasets to the claim there, and whether volume and mount are read-only."""
    volumes = {volume["name"]: volume.get("persistentVolumeClaim") for volume in pod["spec"]["volumes"]}
    return {
        mount["mountPath"]: (
            volumes[mount["name"]]["claimName"],
            bool(volumes[mount["name"]]["readOnly"] and mount["readOnly"]),
        )
        for mount in pod["spec"]["containers"][0]["volumeMounts"]
        if mount["mountPath"].startswith("/datasets") and volumes[mount["name"]]
    }


@hub_group
def test_members_servers_mount_folders_read_only(hub: Hub) -> None:
    """Those of the site's own server too, which pods do not reach."""
    register(hub, "climate", source="nfs://climate", required=True)
    register(hub, "again", source="nfs://climate", mount_path="/datasets/2026/climate", read_only=True)
    assert hub.put("eve", "biology/datasets/genomes", {"source": "nfs://genomes"}).ok
    register(hub, "reference", source="nfs://reference", required=True)
    with nfs_server(NFS):
        of_bob, of_eve = hub.pod("bob"), hub.pod("eve")
    mounts = claims(of_bob)
    assert mounts.keys() == {"/datasets/climate", "/datasets/2026/climate", "/datasets/reference"}
    claim, read_only = mounts.pop("/datasets/reference")
    assert (claim.startswith("dataset-reference-"), read_only) == (True, True)
    ((claim, read_only),) = set(mounts.values())
    assert (claim.startswith("dataset-climate-"), read_only) == (True, True)
    assert [volume["name"] for volume in of_bob["spec"]["volumes"]].count(claim) == 1
    assert "initContainers" not in of_bob["spec"], "nothing to download or to report"
    assert list(claims(of_eve)) == ["/datasets/genomes"]


@hub_group
def test_servers_that_do_not_respond_do_not_stop_the_start_unless_required(hub: Hub, tmp_path: Path) -> None:
    authority, _ = pki.create_authority("unit")
    register(hub, "climate", source="nfs://climate")
    register(hub, "archive", source="nfs://archive")
    expected = {
        "archive": (f"NFS server {NFS_DOWN}: ", "no response in 3 s"),
        "climate": (f"NFS server {NFS}: ", "Connection refused"),
    }
    with nfs_server(NFS_DOWN, silent=True):
        pod = hub.pod("bob")
    assert claims(pod) == {}, "the kubelet would wait for the mount"
    status, report, datasets = init(pod, tmp_path, authority)
    reasons = {dataset["name"]: dataset["reason"] for dataset in json.loads(report)}
    assert (status, reasons.keys()) == (0, expected.keys())
    for name, (server, why) in expected.items():
        assert reasons[name].startswith(server)
        assert why in reasons[name]
        assert files(datasets)[f"{name}/UNREACHABLE.txt"] == f"nfs://{name}: {reasons[name]}\n".encode()
    register(hub, "archive", source="nfs://archive", required=True)
    with nfs_server(NFS):
        pod = hub.pod("bob")
    assert list(claims(pod)) == ["/datasets/climate"]
    status, report, _ = init(pod, tmp_path, authority)
    assert (status, [dataset["name"] for dataset in json.loads(report)]) == (1, ["archive"])


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another tenant's folder": ({"source": "nfs://genomes"}, "fix: one of nfs://climate, nfs://archive, nfs://reference"),
    "a server": ({"source": "nfs://10.0.0.10/data"}, "is not a folder of the tenant"),
    "homes": ({"source": "nfs:///homes"}, "is not a folder of the tenant"),
    "below": ({"source": "nfs://climate/2026"}, "is not a folder of the tenant"),
    "parent": ({"source": "nfs://climate/../genomes"}, "is not a folder of the tenant"),
    "a claim": ({"source": "nfs://homes"}, "is not a folder of the tenant"),
    "writable": ({"source": "nfs://climate", "read_only": False}, "folders on NFS are read-only"),
    "digest": ({"source": "nfs://climate", "sha256": "0" * 64}, "a folder has none"),
    "endpoint": ({"source": "nfs://climate", "endpoint": "open-data"}, "is for sources on S3 only"),
}  # fmt: skip


@hub_group
def test_other_folders_are_refused(hub: Hub) -> None:
    token = hub.token("ada")
    for case, (body, message) in REFUSED.items():
        response = hub.call(token, "PUT", "/api/tenants/research/datasets/climate", body)
        assert response.status_code == 400, (case, response.text)
        assert message in response.json()["message"], case


def folder(**settings: object) -> dict[str, object]:
    return {"name": "climate", "path": "/data/climate", "tenants": ["research"]} | settings


def test_folders_are_volumes_in_the_hubs_namespace(
    values_of: Callable[[Service[Any], Path], dict[str, Any]],
    objects_of: Callable[[Service[Any], Path], list[dict[str, Any]]],
    lab_with: Callable[..., Path],
) -> None:
    other = folder(name="archive", server="nas.example.org", path="/exports/archive")
    site_file = lab_with(SERVICE, datasets={"nfs": [folder(), other]})
    site = load_site(site_file)
    made = {volume.claim: volume for volume in volumes(site) if volume.claim.startswith("dataset-")}
    assert {(volume.namespace, volume.server, volume.path, volume.read_only) for volume in made.values()} == {
        ("jupyterhub", "", "/data/climate", True),
        ("jupyterhub", "nas.example.org", "/exports/archive", True),
    }
    entries = {
        volume["claim"]: volume.get("server")
        for volume in shared_volumes.values(site)["volumes"]
        if volume["claim"] in made
    }
    assert set(entries.values()) == {None, "nas.example.org"}
    allowed = values_of(SERVICE, site_file)["custom"]["datasetSources"]["research"]["nfs"]
    assert {entry["claim"] for entry in allowed.values()} == made.keys()
    assert (allowed["archive"]["server"], allowed["climate"]["server"]) == ("nas.example.org", "")
    policies = {
        o["metadata"]["name"]: o["spec"] for o in objects_of(SERVICE, site_file) if o["kind"] == "NetworkPolicy"
    }
    assert {"ports": [{"port": NFS_PORT, "protocol": "TCP"}]} in policies["hub"]["egress"]
    assert str(NFS_PORT) not in json.dumps(policies["singleuser"]), "else a notebook names any export"


def test_claim_of_another_folder_is_another(lab_with: Callable[..., Path]) -> None:
    claim_names = set()
    for path in ("/data/climate", "/data/weather"):
        site = load_site(lab_with(SERVICE, datasets={"nfs": [folder(path=path)]}))
        claim_names |= {volume.claim for volume in volumes(site) if volume.claim.startswith("dataset-")}
    assert len(claim_names) == 2, "Kubernetes refuses to change a volume's source"


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "tenant": ({"nfs": [folder(tenants=["physics"])]}, "the site has no tenant physics"),
    "homes": ({"nfs": [folder(path="/homes")]}, "is in no export of the site"),
    "root": ({"nfs": [folder(path="/")]}, "is in no export of the site"),
    "tenants": ({"nfs": [folder(path="/tenants/research")]}, "the export tenants holds the folders of tenants"),
    "parent": ({"nfs": [folder(path="/data/../homes")]}, "must be an absolute path without"),
    "duplicate": ({"nfs": [folder(), folder(path="/data")]}, "duplicate: climate"),
    "server": ({"nfs": [folder(server="nas;reboot")]}, "server"),
    "key": ({"s3": ENDPOINTS[:1]}, "its key must be provided"),
    "endpoint": ({"s3": [ENDPOINTS[0] | {"url": "http://s3.example.org"}]}, "must be https://"),
}


@pytest.mark.parametrize(("datasets", "message"), WRONG.values(), ids=WRONG)
def test_site_file_is_checked(lab_with: Callable[..., Path], datasets: dict[str, Any], message: str) -> None:
    with pytest.raises(SiteError, match=message.replace(".", r"\.")):
        load_site(lab_with(SERVICE, datasets=datasets))


def test_keys_of_endpoints_are_in_the_services_secret_only(
    lab_with: Callable[..., Path],
    context_of: Callable[[Service[Any], Path], Any],
    values_of: Callable[[Service[Any], Path], dict[str, Any]],
) -> None:
    site_file = lab_with(SERVICE, datasets={"s3": ENDPOINTS[:1]})
    content = yaml.safe_load(site_file.read_text())
    names = [f"dataset_open_data_{kind}_key" for kind in ("access", "secret")]
    content["secrets"] = [{"name": name, "source": "environment"} for name in names]
    site_file.write_text(yaml.safe_dump(content))
    data = context_of(SERVICE, site_file).secret_data()
    values = values_of(SERVICE, site_file)
    endpoint = values["custom"]["datasetSources"]["research"]["s3"]["open-data"]
    assert [data[key["key"]] for key in endpoint["keys"]] == [f"generated-{name}" for name in names]
    bucket = values["custom"]["datasetSources"]["research"]["bucket"]
    assert all(key["key"] in data for key in bucket["keys"])
    for secret in (*(data[key["key"]] for key in endpoint["keys"]), data[bucket["keys"][1]["key"]]):
        assert secret not in json.dumps(values)
