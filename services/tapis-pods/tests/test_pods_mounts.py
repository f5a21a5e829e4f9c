"""Pods with volumes: what may be mounted, by whom, and what Kubernetes gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strata_bench.api_server import ApiServer

from .conftest import StartReconciler
from .kubelet import Kubelet
from .test_pods_api import assert_refused
from .test_pods_life import objects
from .users import IMAGE, Owner

OwnerOf = Callable[..., Owner]
SNAPSHOT = {"type": "tapissnapshot"}
MOUNT = {"/data": {"type": "tapisvolume", "source_id": "data1"}}


@pytest.fixture
def alice(owner: OwnerOf) -> Owner:
    """A member of research with a volume and a snapshot of it."""
    alice = owner("alice", "research")
    alice.volume("data1")
    alice.upload("data1", "sub/file", b"x")
    alice.snapshot("copy1", "data1")
    return alice


def test_both_forms_reach_kubernetes(
    alice: Owner, start_reconciler: StartReconciler, kubelet: Kubelet, api_server: ApiServer
) -> None:
    mounts = {
        "data1": {"type": "tapisvolume", "mount_path": "/srv", "sub_path": "sub"},
        "/data": {"type": "tapisvolume", "source_id": "data1"},
        "/ro": {"type": "tapisvolume", "source_id": "data1", "read_only": True},
        "copy1": {"type": "tapissnapshot"},
    }
    made = alice.create("web1", volume_mounts=mounts)
    assert made["volume_mounts"]["copy1"] == {
        "type": "tapissnapshot", "source_id": "copy1", "mount_path": "/tapis_volume_mount", "sub_path": "",
        "read_only": False,
    }  # fmt: skip
    with start_reconciler():
        alice.wait("web1", "AVAILABLE")
    (pod,) = objects(api_server, "pods")
    spec = pod["spec"]
    assert spec["securityContext"]["supplementalGroups"] == [65532]
    assert spec["volumes"] == [
        {"name": "read-only", "persistentVolumeClaim": {"claimName": "pods", "readOnly": True}},
        {"name": "volumes", "persistentVolumeClaim": {"claimName": "pods"}},
    ]
    volume_mounts = {mount["mountPath"]: mount for mount in spec["containers"][0]["volumeMounts"]}
    assert volume_mounts == {
        "/data": {"name": "volumes", "mountPath": "/data", "subPath": "volumes/data1"},
        "/srv": {"name": "volumes", "mountPath": "/srv", "subPath": "volumes/data1/sub"},
        "/ro": {"name": "read-only", "mountPath": "/ro", "subPath": "volumes/data1", "readOnly": True},
        "/tapis_volume_mount": {
            "name": "read-only", "mountPath": "/tapis_volume_mount", "subPath": "snapshots/copy1", "readOnly": True,
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("mounts", "text"),
    [
        ({"/data": {"type": "pvc", "source_id": "data1"}}, "type pvc is not available"),
        ({"/data": {"type": "ephemeral"}}, "type ephemeral is not available"),
        ({"/data": {"type": "config", "config_content": "x"}}, "type config is not available"),
        ({"/data": {"type": "tapisvolume", "source_id": "data1", "config_content": "x"}}, "config_content"),
        ({"/data": {"source_id": "data1"}}, "type"),
        ({"/data": {"type": "tapisvolume"}}, "source_id is missing"),
        ({"/data": {"type": "tapisvolume", "source_id": "data1", "mount_path": "/other"}}, "not the key"),
        ({"data1": {"type": "tapisvolume", "source_id": "data2"}}, "not the key"),
        ({"data1": {"type": "tapisvolume", "mount_path": "data"}}, "must be absolute"),
        ({"data1": {"type": "tapisvolume", "mount_path": "/data/../etc"}}, "must be absolute"),
        ({"/": {"type": "tapisvolume", "source_id": "data1"}}, "must be absolute"),
        ({"//data": {"type": "tapisvolume", "source_id": "data1"}}, "must be absolute"),
        ({"/data/": {"type": "tapisvolume", "source_id": "data1"}}, "must be absolute"),
        ({"/a:b": {"type": "tapisvolume", "source_id": "data1"}}, "colon"),
        ({"/proc": {"type": "tapisvolume", "source_id": "data1"}}, "would hide /proc"),
        ({"/etc": {"type": "tapisvolume", "source_id": "data1"}}, "would hide /etc"),
        ({"/dev/own": {"type": "tapisvolume", "source_id": "data1"}}, "would hide /dev"),
        ({"copy1": {**SNAPSHOT, "mount_path": "/data"}, **MOUNT}, "two mounts"),
        ({"/data": {"type": "tapisvolume", "source_id": "data1", "sub_path": "../other"}}, "must not hold"),
        ({"/data": {"type": "tapisvolume", "source_id": "data1", "sub_path": "/etc"}}, "relative"),
        ({"/data": {"type": "tapisvolume", "source_id": "data1", "sub_path": "a\0b"}}, "NUL"),
        ({"/data": {"type": "tapisvolume", "source_id": "none"}}, "there is no volume none"),
        ({"/data": {"type": "tapissnapshot", "source_id": "data1"}}, "there is no snapshot data1"),
        ({"/data": {"type": "tapisvolume", "source_id": "../../teaching"}}, "there is no volume"),
        ({f"/data{n}": {"type": "tapisvolume", "source_id": "data1"} for n in range(11)}, "body.volume_mounts"),
    ],
)  # fmt: skip
def test_mounts_that_cannot_be(alice: Owner, mounts: dict[str, Any], text: str) -> None:
    body = {"pod_id": "web1", "image": IMAGE, "volume_mounts": mounts}
    assert_refused(alice("POST", "", body), 400, text)
    assert_refused(alice("GET", "/web1"), 404)


def test_who_may_mount(alice: Owner, owner: OwnerOf) -> None:
    bob, eve = owner("bob", "research"), owner("eve", "teaching")
    read_only = {"/data": {**MOUNT["/data"], "read_only": True}}

    def made(person: Owner, mounts: dict[str, Any]) -> Any:
        return person("POST", "", {"pod_id": "web2", "image": IMAGE, "volume_mounts": mounts})

    assert_refused(made(bob, MOUNT), 400, "there is no volume data1")
    alice("POST", "/volumes/data1/permissions", {"user": "bob", "level": "READ"})
    assert_refused(made(bob, MOUNT), 403, "USER", "read_only: true")
    assert made(bob, read_only).status_code == 200
    assert_refused(bob("PUT", "/web2", {"volume_mounts": MOUNT}), 403, "read_only: true")
    alice("POST", "/volumes/data1/permissions", {"user": "bob", "level": "USER"})
    assert bob("PUT", "/web2", {"volume_mounts": MOUNT}).status_code == 200
    # whoever changes or starts a pod decides what it does with the files
    bob("POST", "/web2/permissions", {"user": "carol", "level": "ADMIN"})
    carol = owner("carol", "research")
    assert_refused(carol("PUT", "/web2", {"command": ["cat", "/data/file"]}), 400, "there is no volume data1")
    assert_refused(carol("GET", "/web2/restart"), 400, "there is no volume data1")
    assert carol("GET", "/web2/stop").status_code == 200
    assert carol("PUT", "/web2", {"volume_mounts": {}, "command": ["true"]}).status_code == 200
    # a permission does not reach into another tenant
    for kind, name in (("volumes", "data1"), ("snapshots", "copy1")):
        alice("POST", f"/{kind}/{name}/permissions", {"user": "eve", "level": "ADMIN"})
    assert_refused(made(eve, MOUNT), 400, "there is no volume data1")
    both = owner("eve", "teaching", "research")
    body = {"pod_id": "web3", "image": IMAGE, "compute_queue": "teaching", "volume_mounts": MOUNT}
    assert_refused(both("POST", "", body), 400, "is of tenant research, and the pod of teaching")


def test_what_a_pod_mounts_stays(alice: Owner) -> None:
    mounts = {**MOUNT, "copy1": {"type": "tapissnapshot"}}
    alice.create("web1", volume_mounts=mounts, status_requested="OFF")
    for kind, name in (("volumes", "data1"), ("snapshots", "copy1")):
        assert_refused(alice("DELETE", f"/{kind}/{name}"), 409, "mounted by web1")
    assert alice("PUT", "/web1", {"volume_mounts": MOUNT}).status_code == 200
    assert alice("DELETE", "/snapshots/copy1").status_code == 200
    assert_refused(alice("PUT", "/web1", {"volume_mounts": mounts}), 400, "there is no snapshot copy1")
    assert alice("PUT", "/web1", {"volume_mounts": {}}).status_code == 200
    assert alice("DELETE", "/volumes/data1").status_code == 200
