"""A site of inventories/ as checks meet it, with hosts and pods that are programs of this machine."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import testinfra
from testinfra.host import Host

from strata.provider import provider_of
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site

V100 = ("0000:3b:00.0", "0x10de", "0x1db4", "0x030200")


def context_of(name: str) -> Any:
    """Site and provider, which is all that these checks read of a context."""
    site = load_site(find_site(name))
    return SimpleNamespace(site=site, provider=provider_of(site))


def devices(root: Path, *cards: tuple[str, str, str, str]) -> Path:
    """A directory in the form of /sys/bus/pci/devices."""
    root.mkdir(parents=True, exist_ok=True)
    for address, vendor, product, code in cards:
        (root / address).mkdir()
        for file, text in (("vendor", vendor), ("device", product), ("class", code)):
            (root / address / file).write_text(f"{text}\n")
    return root


class LocalHost:
    """A host that runs commands here, with a directory in the place of sysfs and answers for some programs."""

    def __init__(self, sysfs: Path, answers: Mapping[str, str] | None = None) -> None:
        self._host: Host = testinfra.get_host("local://")
        self._sysfs, self._answers = sysfs, answers or {}

    def check_output(self, command: str, *arguments: str) -> str:
        """What the command prints."""
        program = command.split()[0]
        if program in self._answers:
            return self._answers[program]
        return str(self._host.check_output(command.replace("/sys/bus/pci/devices", str(self._sysfs)), *arguments))


class Cluster:
    """kubectl of a cluster with some nodes and pods, whose pods for checks run here."""

    def __init__(
        self,
        nodes: list[dict[str, Any]],
        pods: list[dict[str, Any]],
        programs: Path | None = None,
        device_files: Path | None = None,
    ) -> None:
        self._lists = {"nodes": nodes, "pods": pods}
        self._programs, self._device_files = programs, device_files
        self._created: dict[str, dict[str, Any]] = {}

    def __call__(self, *arguments: str, input: str | None = None, **_: Any) -> str:
        """What kubectl prints."""
        if "create" in arguments and input is not None:
            pod = json.loads(input)
            self._created[pod["metadata"]["name"]] = pod
            return ""
        if "logs" in arguments:
            command = self._created[arguments[arguments.index("logs") + 1]]["spec"]["containers"][0]["command"]
            path = f"{self._programs}:/usr/bin:/bin"
            here = [word.replace("/dev/nvidia", f"{self._device_files}/nvidia") for word in command]
            return subprocess.check_output(here, text=True, env={"PATH": path})
        if "delete" in arguments:
            return ""
        if "pod" in arguments:
            pod = self._created[arguments[arguments.index("pod") + 1]]
            node = pod["spec"].get("nodeSelector", {}).get("kubernetes.io/hostname", "worker-1")
            return json.dumps({"status": {"phase": "Succeeded"}, "spec": {**pod["spec"], "nodeName": node}})
        return json.dumps({"items": self._lists[arguments[arguments.index("get") + 1]]})


def container_of(image: str, image_id: str, namespace: str = "kube-system") -> dict[str, Any]:
    """A running pod of one container."""
    status = {"name": "main", "ready": True, "imageID": image_id}
    return {
        "metadata": {"name": "some", "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": image}]},
        "status": {"containerStatuses": [status]},
    }
