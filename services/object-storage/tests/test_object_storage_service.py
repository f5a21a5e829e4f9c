"""The declaration of object storage, and the need of the services that have a bucket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.catalogue.discovery import services
from strata.catalogue.needs import Bucket
from strata.catalogue.needs.bucket import bucket_key
from strata.catalogue.needs.metrics import SCRAPERS
from strata.catalogue.service import Service
from strata.catalogue.site_services import required_endpoint
from strata.catalogue.site_volumes import volumes
from strata.platform.release_secrets import secret_manifests
from strata.platform.releases import PlatformState, releases, service_context
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError
from strata_services.object_storage.service import SERVICE

ObjectsOf = Callable[[Service[Any], Path], list[dict[str, Any]]]
StateOf = Callable[[Path], PlatformState]
NOTES = Bucket("notes")
EXTERNAL = {"url": "https://rgw.example.org/", "ca_file": "rgw.pem"}


def edited(file: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    content = yaml.safe_load(file.read_text())
    change(content)
    file.write_text(yaml.safe_dump(content))
    return file


@pytest.fixture
def with_bucket(monkeypatch: pytest.MonkeyPatch) -> Service[Any]:
    """A service that needs a bucket too."""
    (chosen,) = (service for service in services() if service.name == "accounting")
    other = replace(chosen, needs=lambda settings: (*chosen.needs(settings), NOTES))
    table = tuple(other if service is chosen else service for service in services())
    monkeypatch.setattr("strata.catalogue.site_services.services", lambda: table)
    return other


def test_a_tenants_server_has_its_folder_and_its_group_only(lab: Path, objects_of: ObjectsOf) -> None:
    objects = objects_of(SERVICE, lab)
    servers = {item["metadata"]["name"]: item for item in objects if item["kind"] == "Deployment"}
    assert set(servers) == {"object-storage-research", "object-storage-teaching"}
    spec = servers["object-storage-research"]["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsGroup"] == 20001
    assert "supplementalGroups" not in spec["securityContext"]
    claims = [v["persistentVolumeClaim"]["claimName"] for v in spec["volumes"] if "persistentVolumeClaim" in v]
    assert claims == ["tenants-research", "object-storage"]
    own = {(v.namespace, v.claim): v.path for v in volumes(load_site(lab))}
    assert own["object-storage", "tenants-research"] == own["research", "tenants"] == "/tenants/research"
    (metadata,) = (m for m in spec["containers"][0]["volumeMounts"] if m["name"] == "metadata")
    assert metadata["subPath"] == "metadata/research"


def test_prometheus_alone_reads_its_metrics(lab: Path, objects_of: ObjectsOf) -> None:
    objects = {(item["kind"], item["metadata"]["name"]): item for item in objects_of(SERVICE, lab)}
    pod = objects["Deployment", "object-storage-research"]["spec"]["template"]
    assert pod["metadata"]["annotations"]["prometheus.io/port"] == "9104"
    (container,) = pod["spec"]["containers"]
    assert {"name": "METRICS", "value": ":9104"} in container["env"]
    _, rule = objects["NetworkPolicy", "object-storage-research"]["spec"]["ingress"]
    assert rule == {"from": list(SCRAPERS), "ports": [{"port": "metrics", "protocol": "TCP"}]}


def test_a_tenants_pods_get_its_key_and_reach_its_server(lab: Path, state: StateOf) -> None:
    loaded = state(lab)
    secrets = secret_manifests(loaded)
    assert set(secrets["research", "bucket-secrets"]["data"]) == {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    server = secrets["object-storage", "object-storage-secrets"]["data"]["research"]
    assert server == secrets["research", "bucket-secrets"]["data"]["AWS_SECRET_ACCESS_KEY"]
    (release,) = (release for release in releases(loaded.site) if release.name == "bucket-research")
    values = release.values(loaded)
    assert values["bucket"]["endpoint"] == "http://object-storage-research.object-storage.svc:7070"
    assert values["server"]["pods"]["podSelector"]["matchLabels"]["strata.dev/bucket"] == "research"
    assert bucket_key(loaded.secrets, required_endpoint(loaded.site), "research")["AWS_SECRET_ACCESS_KEY"] not in str(
        values
    )


def test_a_tenants_bucket_admits_servers_of_its_members_only(lab: Path, objects_of: ObjectsOf) -> None:
    names = ("NetworkPolicy", "object-storage-research")
    (policy,) = (item["spec"] for item in objects_of(SERVICE, lab) if (item["kind"], item["metadata"]["name"]) == names)
    peers = [peer for peer in policy["ingress"][0]["from"] if "jupyterhub" in str(peer)]
    assert [peer["podSelector"]["matchLabels"] for peer in peers] == [
        {"component": "singleuser-server", "strata.dev/tenant": "research"}
    ]


def test_a_service_gets_a_bucket(with_bucket: Service[Any], lab: Path, state: StateOf, objects_of: ObjectsOf) -> None:
    context = service_context(with_bucket, state(lab))
    access = context.provide(NOTES)
    assert access.endpoint == "http://object-storage-notes.object-storage.svc:7070"
    assert {access.access_key.key, access.secret_key.key} <= context.secret_data().keys()
    objects = objects_of(SERVICE, lab)
    (ingress,) = (item["spec"] for item in objects if item["kind"] == "Ingress")
    paths = {path["path"]: path["backend"]["service"]["name"] for path in ingress["rules"][0]["http"]["paths"]}
    servers = {f"/{name}": f"object-storage-{name}" for name in ("research", "teaching", "notes")}
    assert paths == {"/_health": "object-storage-research", **servers}
    (policy,) = (
        i["spec"] for i in objects if i["kind"] == "NetworkPolicy" and i["metadata"]["name"].endswith("-notes")
    )
    client = policy["ingress"][0]["from"][1]
    assert client["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": with_bucket.name}
    assert access.pods is not None
    assert access.pods["podSelector"]["matchLabels"].items() >= policy["podSelector"]["matchLabels"].items() - {
        ("app.kubernetes.io/instance", "object-storage")
    }


def test_a_bucket_needs_s3_and_a_name_of_its_own(with_bucket: Service[Any], lab_with: Callable[..., Path]) -> None:
    def rename(content: dict[str, Any]) -> None:
        content["platform"]["tenants"][0]["name"] = "notes"
        content["platform"]["services"]["jupyterhub"]["profiles"][1]["tenants"] = ["notes"]

    with pytest.raises(SiteError, match="needs the bucket notes, which is the tenant's"):
        load_site(edited(lab_with(SERVICE), rename))
    with pytest.raises(SiteError, match=r"(?s)needs S3 for its bucket notes.*object_storage: {}"):
        load_site(edited(lab_with(SERVICE), lambda content: content["platform"]["services"].pop("object_storage")))


def test_folders_of_tenants_must_be_there(lab_with: Callable[..., Path]) -> None:
    with pytest.raises(SiteError, match="needs the NFS export data with folders of tenants"):
        load_site(lab_with(SERVICE, export="data"))


def test_an_external_endpoint_needs_the_operators_keys(lab_with: Callable[..., Path], state: StateOf) -> None:
    with pytest.raises(SiteError, match=r"research_bucket_access_key.*(.|\n)*research_bucket_secret_key"):
        load_site(lab_with(SERVICE, external=EXTERNAL))

    def provide(content: dict[str, Any]) -> None:
        tenants = [tenant["name"] for tenant in content["platform"]["tenants"]]
        names = [f"{tenant}_bucket_{part}_key" for tenant in tenants for part in ("access", "secret")]
        content["secrets"] = [{"name": name, "source": "environment"} for name in names]

    site_state = state(edited(lab_with(SERVICE, external=EXTERNAL), provide))
    by_name = {release.name: release for release in releases(site_state.site)}
    assert by_name["bucket-research"].values(site_state)["bucket"]["endpoint"] == "https://rgw.example.org"
    assert "buckets" not in by_name["object-storage"].values(site_state)
    key = secret_manifests(site_state)["research", "bucket-secrets"]["data"]
    assert len(set(key.values())) == 2
