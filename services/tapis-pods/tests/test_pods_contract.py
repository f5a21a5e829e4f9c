"""The API answers as its OpenAPI document says, and Tapis' unmodified client reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from unittest.mock import ANY

from strata_bench.http_contract import check_contract
from strata_bench.service_processes import Service
from strata_bench.tapis_client import run_tapipy

from .conftest import IMAGE, Owner, User

SCRIPT = """
import json, os
from tapipy import errors
from tapipy.tapis import Tapis

def client(token):
    return Tapis(base_url=os.environ["URL"], tenant_id="lab", access_token=os.environ[token])

def error(call, **arguments):
    try:
        call(**arguments)
    except errors.BaseTapyException as error:
        return [type(error).__name__, error.message]

t, other, image = client("ALICE"), client("EVE"), os.environ["IMAGE"]
networking = {"default": {"protocol": "http", "port": 8000}}
made = t.pods.create_pod(pod_id="web1", image=image, networking=networking, description="a server",
                         environment_variables={"A": "b"}, resources={"mem_limit": 512}, status_requested="OFF")
found = {"made": [made.pod_id, made.status, made.networking.default.url, made.resources.mem_limit]}
found["list"] = [pod.pod_id for pod in t.pods.list_pods()]
found["updated"] = t.pods.update_pod(pod_id="web1", description="changed").description
found["permissions"] = t.pods.set_pod_permission(pod_id="web1", user="bob", level="USER").permissions
found["revoked"] = t.pods.delete_pod_permission(pod_id="web1", user="bob").permissions
found["started"] = t.pods.start_pod(pod_id="web1").status
found["restarted"] = t.pods.restart_pod(pod_id="web1").status_requested
found["stopped"] = t.pods.stop_pod(pod_id="web1").status_requested
found["logs"] = t.pods.get_pod_logs(pod_id="web1").action_logs[0][-16:]
found["credentials"] = t.pods.get_pod_credentials(pod_id="web1").user_username
found["twice"] = error(t.pods.create_pod, pod_id="web1", image=image)
found["image"] = error(t.pods.create_pod, pod_id="web2", image="docker.io/library/none")
found["other"] = error(other.pods.get_pod, pod_id="web1")
found["deleted"] = t.pods.delete_pod(pod_id="web1")["status"]
found["gone"] = error(t.pods.get_pod, pod_id="web1")
print(json.dumps(found))
"""


def test_tapipy_reads_it(api: Service, alice: User, user: Callable[..., User]) -> None:
    eve = user("eve", "teaching")
    done = run_tapipy(SCRIPT, URL=api.url, ALICE=alice.token, EVE=eve.token, IMAGE=IMAGE)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    refused = {key: found.pop(key) for key in ("twice", "image", "other", "gone")}
    assert found == {
        "made": ["web1", "STOPPED", "web1.pods.lab.strata.test", 512],
        "list": ["web1"],
        "updated": "changed",
        "permissions": ["alice:ADMIN", "bob:USER"],
        "revoked": ["alice:ADMIN"],
        "started": "REQUESTED",
        "restarted": "RESTART",
        "stopped": "OFF",
        "logs": "created by alice",
        "credentials": "web1",
        "deleted": "success",
    }
    assert {key: kind for key, (kind, _) in refused.items()} == {
        "twice": "BaseTapyException",
        "image": "BadRequestError",
        "other": "NotFoundError",
        "gone": "NotFoundError",
    }


FILES = """
import io, json, os, time
from tapipy import errors
from tapipy.tapis import Tapis

t = Tapis(base_url=os.environ["URL"], tenant_id="lab", access_token=os.environ["ALICE"])
made = t.pods.create_volume(volume_id="data1", description="d")
found = {"made": [made.volume_id, made.status], "list": [one.volume_id for one in t.pods.list_volumes()]}
found["uploaded"] = t.pods.upload_to_volume(volume_id="data1", path="sub/file.txt", file=b"content")
found["stream"] = t.pods.upload_to_volume(volume_id="data1", path="other.txt", file=io.BytesIO(b"other"))
found["files"] = [(one.path, one.size) for one in t.pods.list_volume_files(volume_id="data1")]
found["contents"] = t.pods.get_volume_contents(volume_id="data1", path="sub/file.txt").decode()
found["zip"] = t.pods.get_volume_contents(volume_id="data1", path="sub", zip=True)[:2].decode()
found["updated"] = t.pods.update_volume(volume_id="data1", description="e").description
found["permissions"] = t.pods.set_volume_permission(volume_id="data1", user="bob", level="READ").permissions
found["shown"] = t.pods.get_volume_permissions(volume_id="data1").permissions
found["revoked"] = t.pods.delete_volume_permission(volume_id="data1", user="bob").permissions
made = t.pods.create_snapshot(snapshot_id="copy1", source_volume_id="data1", source_volume_path="sub")
deadline = time.monotonic() + 60
while t.pods.get_snapshot(snapshot_id="copy1").status != "AVAILABLE":
    assert time.monotonic() < deadline, "the snapshot is not made"
    time.sleep(0.1)
found["copied"] = [(one.path, one.size) for one in t.pods.list_snapshot_files(snapshot_id="copy1")]
found["copy"] = t.pods.get_snapshot_contents(snapshot_id="copy1", path="file.txt").decode()
found["snapshots"] = [one.snapshot_id for one in t.pods.list_snapshots()]
found["snapshot"] = t.pods.update_snapshot(snapshot_id="copy1", description="e").description
mounts = {"data1": {"type": "tapisvolume", "mount_path": "/data"}}
pod = t.pods.create_pod(pod_id="web1", image=os.environ["IMAGE"], volume_mounts=mounts, status_requested="OFF")
found["pod"] = pod.volume_mounts.data1.mount_path
try:
    t.pods.delete_volume(volume_id="data1")
except errors.BaseTapyException as error:
    found["kept"] = "mounted by web1" in error.message
t.pods.delete_pod(pod_id="web1")
found["deleted"] = t.pods.delete_snapshot(snapshot_id="copy1")["status"]
print(json.dumps(found))
"""


def test_tapipy_has_volumes_and_snapshots(owner: Callable[..., Owner]) -> None:
    alice = owner("alice", "research")
    done = run_tapipy(FILES, URL=alice.url.removesuffix("/v3/pods"), ALICE=alice.token, IMAGE=IMAGE)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "made": ["data1", "AVAILABLE"],
        "list": ["data1"],
        "uploaded": "sub/file.txt",
        "stream": "other.txt",
        "files": [["other.txt", 5], ["sub", ANY], ["sub/file.txt", 7]],
        "contents": "content",
        "zip": "PK",
        "updated": "e",
        "permissions": ["alice:ADMIN", "bob:READ"],
        "shown": ["alice:ADMIN", "bob:READ"],
        "revoked": ["alice:ADMIN"],
        "copied": [["file.txt", 7]],
        "copy": "content",
        "snapshots": ["copy1"],
        "snapshot": "e",
        "pod": "/data",
        "kept": True,
        "deleted": "success",
    }


def test_the_api_keeps_its_contract(owner: Callable[..., Owner]) -> None:
    fuzz = owner("fuzz", "research")
    check_contract(f"{fuzz.url}/openapi.json", fuzz.token)
