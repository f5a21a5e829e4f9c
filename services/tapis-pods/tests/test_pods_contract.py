"""The API answers as its OpenAPI document states, and Tapis' unmodified client reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from unittest.mock import ANY

import pytest

from strata_bench.http_contract import check_contract
from strata_bench.service_processes import Service
from strata_bench.tapis_client import run_tapipy

from .users import IMAGE, Owner, User

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
output = {"made": [made.pod_id, made.status, made.networking.default.url, made.resources.mem_limit]}
chosen = {"gpus": 1, "gpu_minimum_utilization": 5, "gpu_idle_seconds": 900, "mem_limit": 512}
idle = other.pods.create_pod(pod_id="idle1", image=image, resources=chosen, status_requested="OFF").resources
output["idle"] = [idle.gpus, idle.gpu_minimum_utilization, idle.gpu_idle_seconds]
output["list"] = [pod.pod_id for pod in t.pods.list_pods()]
output["updated"] = t.pods.update_pod(pod_id="web1", description="changed").description
output["permissions"] = t.pods.set_pod_permission(pod_id="web1", user="bob", level="USER").permissions
output["revoked"] = t.pods.delete_pod_permission(pod_id="web1", user="bob").permissions
output["started"] = t.pods.start_pod(pod_id="web1").status
output["restarted"] = t.pods.restart_pod(pod_id="web1").status_requested
output["stopped"] = t.pods.stop_pod(pod_id="web1").status_requested
output["logs"] = t.pods.get_pod_logs(pod_id="web1").action_logs[0][-16:]
output["credentials"] = t.pods.get_pod_credentials(pod_id="web1").user_username
output["twice"] = error(t.pods.create_pod, pod_id="web1", image=image)
output["image"] = error(t.pods.create_pod, pod_id="web2", image="docker.io/library/none")
output["other"] = error(other.pods.get_pod, pod_id="web1")
output["deleted"] = t.pods.delete_pod(pod_id="web1")["status"]
output["gone"] = error(t.pods.get_pod, pod_id="web1")
t.pods.add_template(template_id="server", description="ours")
definition = {"image": image, "command": ["serve"], "networking": {"default": {"port": 8000}}}
tag = t.pods.add_template_tag(template_id="server", pod_definition=definition, commit_message="first", tag="v1")
output["tag"] = [tag.template_id, tag.tag, tag.pod_definition.command]
made = t.pods.create_pod(pod_id="web3", template="server:v1")
output["of"] = [made.image == image, made.command, made.template.startswith("server:v1@")]
output["derived"] = t.pods.get_derived_pod(pod_id="web3").command
output["newest"] = t.pods.restart_pod(pod_id="web3", grab_latest_template_tag=True).status_requested
saved = t.pods.save_pod_as_template_tag(pod_id_net="web3", template_id="saved", commit_message="from a pod")
output["saved"] = [saved.template_id, saved.tag]
output["templates"] = [template.template_id for template in t.pods.list_templates()]
output["tags"] = [len(t.pods.list_template_tags(template_id="server", full=False)),
                  len(t.pods.get_template_tag(template_id="server", tag_id="v1")),
                  sorted(vars(t.pods.list_templates_and_tags()))]
output["changed"] = [t.pods.update_template(template_id="server", description="new").description,
                     t.pods.get_template(template_id="server").description]
output["shared"] = [t.pods.set_template_permission(template_id="server", user="bob", level="READ").permissions,
                    t.pods.delete_template_permission(template_id="server", user="bob").permissions,
                    t.pods.get_template_permissions(template_id="server").permissions]
output["hidden"] = error(other.pods.get_template, template_id="server")
output["templates gone"] = t.pods.delete_template(template_id="server")["status"]
pia = client("PIA")
output["added"] = [pia.pods.add_image(image="nginx").image,
                   len(pia.pods.add_images(request_body=[{"image": "redis"}], skip_duplicates=True))]
output["images"] = [entry.image for entry in t.pods.get_images()]
output["one image"] = t.pods.get_image(image_id="docker.io/library/nginx").tenants
output["removed"] = pia.pods.delete_image(image_id="docker.io/library/nginx")["status"]
output["no admin"] = error(t.pods.add_image, image="nginx")
output["exec"] = error(t.pods.exec_pod_commands, pod_id="web3", commands=["id"])
print(json.dumps(output))
"""


REFUSED = {
    "twice": "BaseTapyException",
    "image": "BadRequestError",
    "other": "NotFoundError",
    "gone": "NotFoundError",
    "hidden": "NotFoundError",
    "no admin": "ForbiddenError",
    "exec": "BaseTapyException",
}


def test_tapipy_reads_it(api: Service, alice: User, user: Callable[..., User]) -> None:
    eve, pia = user("eve", "teaching"), user("pia", "research", "research/admins")
    done = run_tapipy(SCRIPT, URL=api.url, ALICE=alice.token, EVE=eve.token, PIA=pia.token, IMAGE=IMAGE)
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    refused = {key: output.pop(key) for key in REFUSED}
    assert output == {
        "made": ["web1", "STOPPED", "web1.pods.lab.strata.test", 512],
        "idle": [1, 5, 900],
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
        "tag": ["server", "v1", ["serve"]],
        "of": [True, ["serve"], True],
        "derived": ["serve"],
        "newest": "RESTART",
        "saved": ["saved", "latest"],
        "templates": ["web", "saved", "server"],
        "tags": [1, 1, ["saved", "server", "web"]],
        "changed": ["new", "new"],
        "shared": [["alice:ADMIN", "bob:READ"], ["alice:ADMIN"], ["alice:ADMIN"]],
        "templates gone": "success",
        "added": ["docker.io/library/nginx", 1],
        "images": ["docker.io/library/nginx", "docker.io/library/redis", IMAGE.replace("site/web", "open/"), IMAGE],
        "one image": ["research"],
        "removed": "success",
    }
    assert {key: kind for key, (kind, _) in refused.items()} == REFUSED


FILES = """
import io, json, os, time
from tapipy import errors
from tapipy.tapis import Tapis

t = Tapis(base_url=os.environ["URL"], tenant_id="lab", access_token=os.environ["ALICE"])
made = t.pods.create_volume(volume_id="data1", description="d")
output = {"made": [made.volume_id, made.status], "list": [volume.volume_id for volume in t.pods.list_volumes()]}
output["uploaded"] = t.pods.upload_to_volume(volume_id="data1", path="sub/file.txt", file=b"content")
output["stream"] = t.pods.upload_to_volume(volume_id="data1", path="other.txt", file=io.BytesIO(b"other"))
output["files"] = [(file.path, file.size) for file in t.pods.list_volume_files(volume_id="data1")]
output["contents"] = t.pods.get_volume_contents(volume_id="data1", path="sub/file.txt").decode()
output["zip"] = t.pods.get_volume_contents(volume_id="data1", path="sub", zip=True)[:2].decode()
output["updated"] = t.pods.update_volume(volume_id="data1", description="e").description
output["permissions"] = t.pods.set_volume_permission(volume_id="data1", user="bob", level="READ").permissions
output["shown"] = t.pods.get_volume_permissions(volume_id="data1").permissions
output["revoked"] = t.pods.delete_volume_permission(volume_id="data1", user="bob").permissions
made = t.pods.create_snapshot(snapshot_id="copy1", source_volume_id="data1", source_volume_path="sub")
deadline = time.monotonic() + 60
while t.pods.get_snapshot(snapshot_id="copy1").status != "AVAILABLE":
    assert time.monotonic() < deadline, "the snapshot is not made"
    time.sleep(0.1)
output["copied"] = [(file.path, file.size) for file in t.pods.list_snapshot_files(snapshot_id="copy1")]
output["copy"] = t.pods.get_snapshot_contents(snapshot_id="copy1", path="file.txt").decode()
output["snapshots"] = [snapshot.snapshot_id for snapshot in t.pods.list_snapshots()]
output["snapshot"] = t.pods.update_snapshot(snapshot_id="copy1", description="e").description
mounts = {"data1": {"type": "tapisvolume", "mount_path": "/data"}}
pod = t.pods.create_pod(pod_id="web1", image=os.environ["IMAGE"], volume_mounts=mounts, status_requested="OFF")
output["pod"] = pod.volume_mounts.data1.mount_path
try:
    t.pods.delete_volume(volume_id="data1")
except errors.BaseTapyException as error:
    output["kept"] = "mounted by web1" in error.message
t.pods.delete_pod(pod_id="web1")
output["deleted"] = t.pods.delete_snapshot(snapshot_id="copy1")["status"]
print(json.dumps(output))
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


@pytest.mark.parametrize(
    "phases", ["fuzzing", pytest.param("coverage,fuzzing,stateful", marks=pytest.mark.nightly, id="all")]
)
def test_the_api_keeps_its_contract(owner: Callable[..., Owner], phases: str) -> None:
    """60 operations: requests that break each rule of each schema take a minute."""
    fuzz = owner("fuzz", "research")
    check_contract(f"{fuzz.url}/openapi.json", fuzz.token, f"--phases={phases}")
