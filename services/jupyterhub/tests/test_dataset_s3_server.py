"""Datasets from the site's own S3 server, by the init container's program: lists, objects, keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strata.site.secrets import pki
from strata_bench.s3 import REGION, S3Server, find_s3_server, s3_server
from strata_services.jupyterhub.service import SERVICE

from .datasets import GOOD, SHA256, files, init

pytestmark = pytest.mark.xdist_group("s3-server")
SECRETS = {"id": "research", "secret": "a-secret-key"}
PROGRAM = SERVICE.folder / "images" / "hub" / "src" / "strata_hub" / "fetch.py"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    program = find_s3_server()
    if program is None:
        pytest.skip("the server was not built: `strata doctor`")
    with s3_server(program, tmp_path_factory.mktemp("s3"), SECRETS["id"], SECRETS["secret"]) as s3:
        yield s3


def pod(server: S3Server, **datasets: dict[str, Any]) -> dict[str, Any]:
    """With the init container of datasets in the bucket: name to `key` and what differs."""
    at = {"endpoint": server.url, "region": REGION, "bucket": server.bucket, "keys": ["ACCESS_KEY_0", "SECRET_KEY_0"]}
    given = {
        "datasets": [
            {"name": name, "source": f"s3://{server.bucket}/{dataset['key']}", "file": "file", "sha256": None,
             "required": False, "unreachable": "", "s3": at | {"key": dataset["key"]}} | dataset.get("more", {})
            for name, dataset in datasets.items()
        ],
        "directory": "/datasets",
        "report": "/dev/termination-log",
        "limits": {"bytes": 2**20, "seconds": 60, "authorities": ""},
    }  # fmt: skip
    references = {"ACCESS_KEY_0": "id", "SECRET_KEY_0": "secret"}
    environment = [{"name": n, "valueFrom": {"secretKeyRef": {"name": "x", "key": k}}} for n, k in references.items()]
    container = {
        "command": ["python3", "-I", "-c", PROGRAM.read_text()],
        "env": [{"name": "DATASETS", "value": json.dumps(given)}, *environment],
    }
    return {"spec": {"initContainers": [container]}}


def test_prefixes_and_objects_are_downloaded(server: S3Server, tmp_path: Path) -> None:
    content = {"plots/a b+ü.csv": GOOD, "plots/deep/er/=&%.csv": b"", "plots-2/c": b"c", "single.csv": GOOD}
    content |= {f"many/{number:04}": b"x" for number in range(1_001)}
    for name, data in content.items():
        path = server.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (server.folder / "plots" / "link").symlink_to("../single.csv")
    authority, _ = pki.create_authority("unit")
    given = pod(
        server,
        plots={"key": "plots/"},
        single={"key": "single.csv", "more": {"sha256": SHA256, "required": True}},
        spaces={"key": "plots/a b+ü.csv"},
        many={"key": "many/"},
        changed={"key": "single.csv", "more": {"sha256": "0" * 64}},
    )
    status, report, datasets = init(given, tmp_path, authority, secrets=SECRETS)
    reasons = {dataset["name"]: dataset["reason"] for dataset in json.loads(report)}
    assert (status, reasons) == (0, {"changed": f"sha256 is {SHA256}, not the registered one"})
    contents = files(datasets)
    assert len([name for name in contents if name.startswith("many/")]) == 1_001
    assert {name: data for name, data in contents.items() if name.startswith(("plots", "single", "spaces"))} == {
        "plots/a b+ü.csv": GOOD, "plots/deep/er/=&%.csv": b"", "plots/link": GOOD, "single/file": GOOD,
        "spaces/file": GOOD,
    }  # fmt: skip
    assert not (datasets / "plots" / "link").is_symlink()


def test_wrong_keys_and_other_buckets_are_unreachable(server: S3Server, tmp_path: Path) -> None:
    (server.folder / "present").write_text("one")
    authority, _ = pki.create_authority("unit")
    wrong = {
        "another secret": (SECRETS | {"secret": "sesame"}, "research", "403 SignatureDoesNotMatch"),
        "another key": (SECRETS | {"id": "sesame"}, "research", "403 InvalidAccessKeyId"),
        "another bucket": (SECRETS, "biology", ("403 AccessDenied", "404 NoSuchBucket")),
        "no object": (SECRETS, "research", "404 NoSuchKey"),
    }
    for case, (keys, bucket, expected) in wrong.items():
        key = "absent" if case == "no object" else "present"
        given = pod(S3Server(server.url, server.folder, bucket, ""), one={"key": key, "more": {"required": True}})
        status, report, _ = init(given, tmp_path, authority, secrets=keys)
        ((reason),) = (dataset["reason"] for dataset in json.loads(report))
        assert (status, reason in expected) == (1, True), (case, reason)
        assert "sesame" not in report
