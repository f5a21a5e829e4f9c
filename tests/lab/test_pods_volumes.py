"""Volumes and snapshots of pods, by the unmodified tapipy."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from strata.site.context import SiteContext
from strata_bench.waiting import eventually

from .test_pods import START_SECONDS, Member, ada, member, new_name

pytestmark = pytest.mark.nightly
__all__ = ["ada", "member"]
"""Fixtures."""
WRITER = """
import os
os.umask(0o007)
os.makedirs("/data/out", exist_ok=True)
with open("/data/in/name.txt") as given, open("/data/out/said.txt", "w") as said:
    said.write(given.read().upper())
os.symlink("/etc/passwd", "/data/out/link")
"""
READER = """
print("found", open("/old/said.txt").read())
try:
    open("/old/new.txt", "w")
except OSError as error:
    print("refused", type(error).__name__)
"""
LIFE = """
volume, copy, writer, reader = (os.environ[name] for name in ("VOLUME", "COPY", "WRITER", "READER"))
made = t.pods.create_volume(volume_id=volume, description="a test")
output = {"made": made.status}
t.pods.upload_to_volume(volume_id=volume, path="in/name.txt", file=b"ada")
small(writer, command=["python3", "-c", os.environ["WRITES"]],
      volume_mounts={volume: {"type": "tapisvolume", "mount_path": "/data"}})
wait(writer, "COMPLETE")
output["files"] = {file.path: file.type for file in t.pods.list_volume_files(volume_id=volume)}
output["said"] = t.pods.get_volume_contents(volume_id=volume, path="out/said.txt").decode()
output["link"] = refused(t.pods.get_volume_contents, volume_id=volume, path="out/link")
output["zip"] = t.pods.get_volume_contents(volume_id=volume, path="out", zip=True)[:2].decode()
t.pods.create_snapshot(snapshot_id=copy, source_volume_id=volume, source_volume_path="out")
deadline = time.monotonic() + START_SECONDS
while (state := t.pods.get_snapshot(snapshot_id=copy)).status == "CREATING":
    assert time.monotonic() < deadline, f"{copy} is still copied"
    time.sleep(0.2)
output["snapshot"] = [state.status, state.status_message]
t.pods.upload_to_volume(volume_id=volume, path="out/said.txt", file=b"changed")
small(reader, command=["python3", "-c", os.environ["READS"]],
      volume_mounts={"/old": {"type": "tapissnapshot", "source_id": copy}})
wait(reader, "COMPLETE")
output["log"] = t.pods.get_pod_logs(pod_id=reader).logs.splitlines()
output["kept"] = refused(t.pods.delete_volume, volume_id=volume)[1]
print(json.dumps(output))
""".replace("START_SECONDS", str(START_SECONDS))
STRANGER = """
volume, copy = os.environ["VOLUME"], os.environ["COPY"]
output = {"volumes": [volume.volume_id for volume in t.pods.list_volumes()]}
for kind, name in (("volume", volume), ("snapshot", copy)):
    for action in (f"get_{kind}", f"list_{kind}_files", f"delete_{kind}", f"get_{kind}_permissions"):
        output[action] = refused(getattr(t.pods, action), **{f"{kind}_id": name})
output["read"] = refused(t.pods.get_volume_contents, volume_id=volume, path="out/said.txt")
output["write"] = refused(t.pods.upload_to_volume, volume_id=volume, path="out/said.txt", file=b"x")
output["mount"] = refused(small, pod_id=os.environ["THEFT"],
                          volume_mounts={volume: {"type": "tapisvolume", "mount_path": "/data"}})
print(json.dumps(output))
"""
DELETE = """
volume, copy = os.environ["VOLUME"], os.environ["COPY"]
for pod_id in (os.environ["WRITER"], os.environ["READER"]):
    t.pods.delete_pod(pod_id=pod_id)
deadline = time.monotonic() + START_SECONDS
# until the pods have ended
while refused(t.pods.delete_volume, volume_id=volume) or refused(t.pods.delete_snapshot, snapshot_id=copy):
    volumes = [volume.volume_id for volume in t.pods.list_volumes()]
    left = volumes, [snapshot.snapshot_id for snapshot in t.pods.list_snapshots()]
    if left == ([], []):
        break
    assert time.monotonic() < deadline, f"{left} cannot be deleted"
    time.sleep(0.5)
print("{}")
""".replace("START_SECONDS", str(START_SECONDS))
LIST = """
import json, os, sys
folders = ("volumes", "snapshots", ".partial")
output = {name: os.listdir(f"/var/lib/pods/volumes/{sys.argv[1]}/{name}") for name in folders}
print(json.dumps(output | {".removed": os.listdir("/var/lib/pods/volumes/.removed")}))
"""


def test_pods_share_files_that_are_read_copied_and_deleted(
    context: SiteContext,
    ada: Member,
    member: Callable[[str], Member],
    kubectl: Callable[..., str],
) -> None:
    first, second = (tenant.name for tenant in context.site.platform.tenants[:2])
    names = {purpose.upper(): new_name(purpose) for purpose in ("volume", "copy", "writer", "reader")}
    output = ada.run(LIFE, **names, WRITES=WRITER, READS=READER)
    link, kept = output.pop("link"), output.pop("kept")
    assert output == {
        "made": "AVAILABLE",
        "files": {
            "in": "dir", "in/name.txt": "file", "out": "dir", "out/link": "symbolic_link", "out/said.txt": "file",
        },
        "said": "ADA",
        "zip": "PK",
        "snapshot": ["AVAILABLE", ""],
        "log": ["found ADA", "refused OSError"],
    }  # fmt: skip
    assert link[0] == "BadRequestError"
    assert names["WRITER"] in kept

    seen = member(second).run(STRANGER, **names, THEFT=new_name("theft"))
    assert seen.pop("volumes") == []
    assert seen.pop("mount")[0] == "BadRequestError"
    assert {kind for kind, _ in seen.values()} == {"NotFoundError"}, seen

    ada.run(DELETE, **names)

    def gone() -> bool:
        options = ("--namespace=strata-system", "deployment/tapis-pods-files", "--container=files")
        left = json.loads(kubectl("exec", *options, "--", "python3", "-c", LIST, first))
        # the NFS server deletes what is in .removed
        return not left.pop(".removed") and not {names["VOLUME"], names["COPY"]} & {
            item for own in left.values() for item in own
        }

    eventually(gone, START_SECONDS, "the files are deleted, on the NFS server too")
