"""The `helm` and `kubectl` commands, as far as the provider needs them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

from strata.access.commands import Running, failure, run_command
from strata.access.helm_storage import StoredRelease, listing, stored_releases

Say = Callable[[str], None]


class CommandFailed(Exception):
    """helm or kubectl ended with an error; the text is its last line."""


class Cluster:
    """One cluster, by its kubeconfig.

    Args:
        kubeconfig: path of the file.
        context: in it; empty for the current one.
    """

    def __init__(self, kubeconfig: str, context: str) -> None:
        self._helm = ["--kubeconfig", kubeconfig, *(["--kube-context", context] if context else [])]
        self._kubectl = ["--kubeconfig", kubeconfig, *(["--context", context] if context else [])]
        self._running = Running()
        self._reading = threading.Lock()
        self._releases: Mapping[tuple[str, str], StoredRelease] | None = None

    def helm(self, *arguments: str, text: str = "") -> str:
        """Runs helm, which changes a release, with `text` on its stdin, where values go: they hold secrets."""
        try:
            return self._run(["helm", *arguments, *self._helm], text)
        finally:
            with self._reading:
                self._releases = None

    def kubectl(self, *arguments: str, text: str = "") -> str:
        """Runs kubectl."""
        return self._run(["kubectl", *arguments, *self._kubectl], text)

    def release(self, name: str, namespace: str) -> StoredRelease | None:
        """The last revision of a release now; None where there is none."""
        return stored_releases(self.kubectl(*listing(name, namespace))).get((namespace, name))

    def releases(self) -> Mapping[tuple[str, str], StoredRelease]:
        """The releases by namespace and name, read once for all that are refreshed: before the program changes any."""
        with self._reading:
            if self._releases is None:
                self._releases = stored_releases(self.kubectl(*listing()))
            return self._releases

    def cancel(self) -> None:
        """Interrupts what runs; helm then marks its release as failed."""
        self._running.terminate()

    def _run(self, command: list[str], text: str) -> str:
        try:
            done = run_command(command, text=text, running=self._running)
        except FileNotFoundError as error:
            raise CommandFailed(f"{command[0]} is not on PATH; `strata doctor` shows its source") from error
        if done.returncode:
            raise CommandFailed(failure(done))
        return done.stdout


def failing_pods(cluster: Cluster, namespace: str) -> list[str]:
    """Why pods of a namespace are not ready, a line each; empty where that cannot be found out."""
    try:
        pods = json.loads(cluster.kubectl("get", "pods", "--namespace", namespace, "--output", "json"))["items"]
        events = json.loads(
            cluster.kubectl(
                *("get", "events", "--namespace", namespace, "--field-selector", "type=Warning"),
                *("--sort-by", ".lastTimestamp", "--output", "json"),
            )
        )["items"]
    except (CommandFailed, ValueError, KeyError):
        return []
    by_pod = {pod["metadata"]["name"]: _pod_lines(pod) for pod in pods}
    lines = [line for pod_lines in by_pod.values() for line in pod_lines]
    for event in reversed(events):
        subject = event["involvedObject"]
        if subject["kind"] == "Pod" and by_pod.get(subject["name"]):
            continue  # the pod's own state shows it better
        line = f"{subject['kind'].lower()} {subject['name']}: {event['reason']}: {event['message']}"
        if len(lines) < 8 and line not in lines:
            lines.append(line)
    return lines


def _pod_lines(pod: dict[str, Any]) -> list[str]:
    name, status = pod["metadata"]["name"], pod.get("status", {})
    lines = []
    for condition in status.get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            lines.append(f"pod {name}: {condition.get('reason')}: {condition.get('message')}")
    for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        state = container.get("state", {})
        if waiting := state.get("waiting"):
            last = container.get("lastState", {}).get("terminated", {})
            ended = f" (ended with status {last['exitCode']})" if "exitCode" in last else ""
            reason, message = waiting.get("reason", ""), waiting.get("message", "")
            if reason not in ("ContainerCreating", "PodInitializing"):
                lines.append(f"pod {name}: {container['name']}: {reason}: {message}{ended}")
        elif (ended_now := state.get("terminated")) and ended_now.get("exitCode"):
            reason = ended_now.get("reason", "")
            lines.append(f"pod {name}: {container['name']}: {reason}, status {ended_now['exitCode']}")
    return lines
