"""Datasets on S3 in a real JupyterHub: which buckets a tenant names, where keys are, hostile servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from strata.site.secrets import pki

from .datasets import SHA256, files, init, register
from .running_hub import Hub
from .s3_source import hostile_s3

pytestmark = pytest.mark.xdist_group("jupyterhub-hub")
SECRETS = {
    "research.AWS_ACCESS_KEY_ID": "research",
    "research.AWS_SECRET_ACCESS_KEY": "sesame-of-the-bucket",
    "dataset.open-data.AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "dataset.open-data.AWS_SECRET_ACCESS_KEY": "sesame-of-open-data",
}
PUBLIC = "https://s3.example.com"

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another tenant's bucket": ({"source": "s3://biology/"}, "bucket biology is not the tenant's; fix: a source in s3"),
    "a service's bucket": ({"source": "s3://backups/"}, "is not the tenant's"),
    "another tenant's endpoint": (
        {"source": "s3://genomes/", "endpoint": "genomes"},
        "is not an endpoint of the tenant; fix: open-data or https://HOST",
    ),
    "another bucket of a shared key": ({"source": "s3://genomes/", "endpoint": "open-data"}, "fix: a source in s3://sky/"),
    "parent": ({"source": "s3://research/../biology/"}, "has an empty part, . or .."),
    "parent as the bucket": ({"source": "s3://../biology/"}, "has no bucket"),
    "empty part": ({"source": "s3://research//a"}, "has an empty part"),
    "no bucket": ({"source": "s3:///a"}, "has no bucket"),
    "bucket as a host": ({"source": "s3://research:80@example.org/a"}, "has no bucket"),
    "control character": ({"source": "s3://research/a\0b"}, "is not a URL"),
    "digest of a prefix": ({"source": "s3://research/a/", "sha256": SHA256}, "a prefix has none"),
    "endpoint over http": ({"source": "s3://sky/", "endpoint": "http://s3.example.com"}, "is not an HTTPS URL"),
    "metadata": ({"source": "s3://latest/", "endpoint": "https://169.254.169.254"}, "is an address of the node"),
    "metadata by IPv6": ({"source": "s3://latest/", "endpoint": "https://[fe80::a9fe:a9fe]"}, "of the node"),
    "metadata in IPv6": ({"source": "s3://latest/", "endpoint": "https://[::ffff:169.254.169.254]"}, "of the node"),
    "metadata as a number": ({"source": "s3://latest/", "endpoint": "https://2852039166"}, "is an address of the node"),
    "metadata, hexadecimal": ({"source": "s3://latest/", "endpoint": "https://0xA9FEA9FE"}, "of the node"),
    "loopback": ({"source": "s3://latest/", "endpoint": "https://127.0.0.1:8081"}, "is an address of the node"),
    "metadata by https": ({"source": "https://169.254.169.254/latest/"}, "is an address of the node"),
    "path of an endpoint": ({"source": "s3://sky/", "endpoint": f"{PUBLIC}/x/.."}, "has more than a host"),
    "login in an endpoint": ({"source": "s3://sky/", "endpoint": "https://ada:sesame@a.org"}, "or a password"),
    "list as an endpoint": ({"source": "s3://sky/", "endpoint": [PUBLIC]}, "is not an endpoint of the tenant"),
    "region": ({"source": "s3://sky/", "endpoint": PUBLIC, "region": "a\nb"}, "is not a region"),
    "region of the site's": ({"source": "s3://research/", "region": "eu-1"}, "region: 'eu-1': is the site's"),
    "endpoint of https": ({"source": "https://example.org/a", "endpoint": PUBLIC}, "is for sources on S3 only"),
    "access key": ({"source": "s3://research/", "access_key": "sesame"}, "access_key: '…': datasets have no keys"),
    "secret": ({"source": "s3://research/", "aws_secret_access_key": "sesame"}, "ask the operators for an endpoint"),
    "other scheme": ({"source": "gs://research/"}, "is not an HTTPS URL"),
}  # fmt: skip


def test_wrong_sources_are_refused(hub: Hub) -> None:
    token, before = hub.token("ada"), len((hub.directory / "log").read_text())
    for case, (body, message) in REFUSED.items():
        response = hub.call(token, "PUT", "/api/tenants/research/datasets/sky", body)
        assert response.status_code == 400, (case, response.text)
        text = response.json()["message"]
        assert message in text, case
        assert "fix: " in text, case
        assert "sesame" not in text, case
    assert hub.call(token, "GET", "/api/tenants/research/datasets").json() == {}
    logged = (hub.directory / "log").read_text()[before:]
    assert "datasets have no keys" in logged
    assert "sesame" not in logged


def test_administrator_of_another_tenant_has_that_tenants_bucket_only(hub: Hub) -> None:
    for source, status in (("s3://research/", 400), ("s3://biology/", 200)):
        response = hub.put("eve", "biology/datasets/x", {"source": source})
        assert response.status_code == status, response.text


def variables(container: dict[str, Any]) -> dict[str, str]:
    """Name to entry of the Secret."""
    keys = {}
    for variable in container["env"][1:]:
        reference = variable["valueFrom"]["secretKeyRef"]
        assert (reference["name"], reference["optional"]) == ("jupyterhub-secrets", True)
        keys[variable["name"]] = reference["key"]
    return keys


def test_only_the_init_container_has_keys_and_from_secrets(hub: Hub) -> None:
    register(hub, "mine", source="s3://research/measurements/")
    register(hub, "sky", source="s3://sky/", endpoint="open-data")
    register(hub, "public", source="s3://sky/map.fits", endpoint=PUBLIC, region="eu-central-1", sha256=SHA256)
    pod = hub.pod("bob")
    (init_container,) = pod["spec"]["initContainers"]
    assert variables(init_container) == {
        "ACCESS_KEY_0": "research.AWS_ACCESS_KEY_ID",
        "SECRET_KEY_0": "research.AWS_SECRET_ACCESS_KEY",
        "ACCESS_KEY_2": "dataset.open-data.AWS_ACCESS_KEY_ID",
        "SECRET_KEY_2": "dataset.open-data.AWS_SECRET_ACCESS_KEY",
    }
    by_name = {dataset["name"]: dataset["s3"] for dataset in json.loads(init_container["env"][0]["value"])["datasets"]}
    assert by_name["public"] == {
        "endpoint": PUBLIC, "region": "eu-central-1", "keys": None, "bucket": "sky", "key": "map.fits",
    }  # fmt: skip
    assert by_name["mine"]["endpoint"] == "http://object-storage-research.object-storage.svc:7070"
    assert (by_name["sky"]["endpoint"], by_name["sky"]["region"]) == ("https://s3.example.org", "eu-1")
    (notebook,) = pod["spec"]["containers"]
    assert "secretKeyRef" not in json.dumps(notebook)
    assert "jupyterhub-secrets" not in json.dumps(pod["spec"]["volumes"])


def test_source_that_the_site_no_longer_allows_is_unreachable(hub: Hub, tmp_path: Path) -> None:
    """Whatever is in the database, a server gets no other tenant's data."""
    register(hub, "mine", source="s3://research/")
    register(hub, "climate", source="nfs://climate")
    for name, source in (("mine", "s3://biology/"), ("climate", "nfs://genomes")):
        change = f"SET value = '{json.dumps({'source': source})}' WHERE name = '{name}'"
        hub.server.sql(f"UPDATE strata_configuration {change}", hub.database)
    pod = hub.pod("bob")
    assert variables(pod["spec"]["initContainers"][0]) == {}
    assert [volume["name"] for volume in pod["spec"]["volumes"] if volume["name"].startswith("dataset")] == ["datasets"]
    status, report, datasets = init(pod, tmp_path, pki.create_authority("unit")[0])
    reasons = {dataset["name"]: dataset["reason"] for dataset in json.loads(report)}
    assert (status, set(reasons)) == (0, {"mine", "climate"})
    assert set(reasons.values()) == {"the site does not allow this source; an administrator of the tenant registers it"}
    assert files(datasets).keys() == {"climate/UNREACHABLE.txt", "mine/UNREACHABLE.txt"}


BROKEN = {
    "parent": "is not a file below a folder",
    "absolute": "is not a file below a folder",
    "other": "is none of S3",
    "many": "more than 10000 objects",
    "conflict": "Error: ",
    "large": "1000000000000 bytes, and at most 1000000 are allowed",
    "liar": "more than 1000000 bytes",
    "entities": "is none of S3",
    "garbage": "is none of S3",
    "long": "is none of S3",
    "empty": "no object has the prefix",
    "moved": "307: the endpoint redirects",
    "denied": "403 InvalidAccessKeyId",
}


def test_servers_that_break_the_rules_are_unreachable(hub: Hub, tmp_path: Path) -> None:
    for name in (*BROKEN, "good"):
        register(hub, name, source=f"s3://research/{name}/")
    outside = tmp_path / "home"
    outside.mkdir()
    (outside / "file").write_text("mine")
    # what a user left in a writable copy before the node started the pod again
    (tmp_path / "datasets" / "good").mkdir(parents=True)
    (tmp_path / "datasets" / "good" / "b").symlink_to(outside)
    (tmp_path / "datasets" / "good" / "a").symlink_to(outside / "file")
    authority, _ = pki.create_authority("unit")
    with hostile_s3() as (url, requests):
        pod = hub.pod("bob")
        status, report, datasets = init(pod, tmp_path, authority, secrets=SECRETS, endpoint=url, bytes=1_000_000)
    reasons = {dataset["name"]: dataset["reason"] for dataset in json.loads(report)}
    assert (status, reasons.keys()) == (0, BROKEN.keys())
    for name, reason in BROKEN.items():
        assert reason in reasons[name], name
    contents = files(datasets)
    assert {name: content for name, content in contents.items() if "UNREACHABLE" not in name} == {
        "good/a": b"/research/good/a",
        "good/b/c": b"/research/good/b/c",
    }
    assert {name.partition("/")[0] for name in contents} == {*BROKEN, "good"}, "and nothing beside the datasets"
    assert (files(outside), sorted(path.name for path in tmp_path.iterdir())) == (
        {"file": b"mine"}, ["datasets", "home", "report"],
    )  # fmt: skip
    assert not [request for request in requests if "stolen" in request]
    for text in (report, *(content.decode() for content in contents.values())):
        assert "sesame" not in text
        assert "AKIDEXAMPLE" not in text


def test_endless_list_ends(hub: Hub, tmp_path: Path) -> None:
    register(hub, "endless", source="s3://research/endless/", required=True)
    authority, _ = pki.create_authority("unit")
    with hostile_s3() as (url, _):
        status, report, _ = init(hub.pod("bob"), tmp_path, authority, secrets=SECRETS, endpoint=url, seconds=1)
    assert status == 1, "it is required"
    ((reason),) = (dataset["reason"] for dataset in json.loads(report))
    assert reason in ("not complete after 1 s", "no response in time", "a list of more than 1000 pages")


def test_public_endpoints_get_no_key_and_missing_keys_are_named(hub: Hub, tmp_path: Path) -> None:
    register(hub, "public", source="s3://research/good/a", endpoint=PUBLIC)
    register(hub, "mine", source="s3://research/good/a")
    authority, _ = pki.create_authority("unit")
    with hostile_s3() as (url, requests):
        _, report, datasets = init(hub.pod("bob"), tmp_path, authority, endpoint=url)
    assert requests == ["/research/good/a anonymous"]
    assert files(datasets)["public/a"] == b"/research/good/a"
    assert [(dataset["name"], dataset["reason"]) for dataset in json.loads(report)] == [
        ("mine", "the site has no key for the bucket")
    ]
