"""A substitute for controllers, scheduler and kubelet beside a real API server: Deployments of models have a pod."""

from __future__ import annotations

import base64
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
import yaml

from strata_bench.api_server import ApiServer

Object = dict[str, Any]
WAITING = {"state": {"waiting": {"reason": "ContainerCreating"}}, "ready": False}
READY = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "True"}],
    "containerStatuses": [{"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "ready": True}],
}
STARTING = {
    "phase": "Pending",
    "conditions": [{"type": "Ready", "status": "False"}],
    "containerStatuses": [WAITING],
}


def crashed(message: str, reason: str = "Error") -> Object:
    """The status of a pod whose container has ended, and waits before it is started again."""
    ended = {"exitCode": 3, "reason": reason, "message": message}
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}}
    container = {"state": waiting, "lastState": {"terminated": ended}, "ready": False}
    return {**STARTING, "phase": "Running", "containerStatuses": [container]}


def not_pulled() -> Object:
    """The status of a pod whose image is missing."""
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
    return {**STARTING, "containerStatuses": [{"state": waiting, "ready": False}]}


def unschedulable(message: str) -> Object:
    """The status of a pod for which no node has room."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [condition]}


@dataclass
class Controller:
    """What it does.

    Args:
        api: of the namespace: https://…/apis.
        http: authorized session.
        ca: of the API server.
        namespace: of the Deployments.
        status: of pods from now on, by name of the Deployment; that of others is READY.
        made: names of Deployments, one for each pod that was made.
    """

    api: str
    http: requests.Session
    ca: Path
    namespace: str
    status: dict[str, Object] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def request(self, method: str, path: str, body: Object | None = None, kind: str = "application/json") -> Any:
        """Asks the API server; None for 404 and 409."""
        answer = self.http.request(
            method, self.api + path, json=body, headers={"Content-Type": kind}, verify=str(self.ca), timeout=30
        )
        if answer.status_code in (404, 409):
            return None
        assert answer.ok, answer.text
        return answer.json()

    def replicas(self, name: str) -> int:
        """That a Deployment shall have."""
        deployment = self.request("GET", f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{name}")
        replicas: int = deployment["spec"]["replicas"]
        return replicas

    def runs(self, name: str) -> bool:
        """Whether a Deployment has a pod."""
        return self.request("GET", f"/api/v1/namespaces/{self.namespace}/pods/{name}-1") is not None

    def scale(self, name: str, replicas: int) -> None:
        """Scales a Deployment, as an operator does."""
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{name}/scale"
        self.request("PATCH", path, {"spec": {"replicas": replicas}}, "application/merge-patch+json")

    def work(self) -> None:
        """Until the end."""
        while not self.ended.wait(0.05):
            self._pass()

    def _pass(self) -> None:
        pods = f"/api/v1/namespaces/{self.namespace}/pods"
        present = {pod["metadata"]["name"]: pod for pod in self.request("GET", pods)["items"]}
        for item in self.request("GET", f"/apis/apps/v1/namespaces/{self.namespace}/deployments")["items"]:
            name = item["metadata"]["name"]
            labels = item["spec"]["template"]["metadata"]["labels"]
            if "strata.dev/model" not in labels:
                continue
            pod = f"{name}-1"
            if not item["spec"]["replicas"]:
                if pod in present:
                    self.request("DELETE", f"{pods}/{pod}", {"gracePeriodSeconds": 0})
                continue
            if pod not in present:
                container = {"name": "model-server", "image": "registry.example.org/model-server"}
                self.made.append(name)
                metadata = {"name": pod, "labels": labels}
                spec = {"containers": [container], "automountServiceAccountToken": False}
                self.request("POST", pods, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
            status = self._status(name)
            if present.get(pod, {}).get("metadata", {}).get("annotations", {}).get("status") != str(hash(str(status))):
                merge = "application/merge-patch+json"
                self.request("PATCH", f"{pods}/{pod}/status", {"status": status}, merge)
                annotations = {"status": str(hash(str(status)))}
                self.request("PATCH", f"{pods}/{pod}", {"metadata": {"annotations": annotations}}, merge)

    def _status(self, name: str) -> Object:
        status = self.status.get(name, READY)
        common = {"name": "model-server", "image": "", "imageID": "", "restartCount": 0}
        containers = [{**common, **container} for container in status.get("containerStatuses", ())]
        return {**status, "containerStatuses": containers or None}


@contextlib.contextmanager
def running_controller(server: ApiServer, namespace: str, directory: Path) -> Iterator[Controller]:
    """One for a namespace, until the end of the block."""
    content = yaml.safe_load(server.kubeconfig.read_text())
    http = requests.Session()
    http.headers["Authorization"] = f"Bearer {content['users'][0]['user']['token']}"
    cluster = content["clusters"][0]["cluster"]
    ca = directory / "ca.crt"
    ca.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    controller = Controller(cluster["server"], http, ca, namespace)
    thread = threading.Thread(target=controller.work, daemon=True)
    thread.start()
    try:
        yield controller
    finally:
        controller.ended.set()
        thread.join(60)
