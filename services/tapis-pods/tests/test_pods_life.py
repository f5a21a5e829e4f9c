"""Pods from request to end: the two processes, a real PostgreSQL, a real API server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from strata_bench.api_server import ApiServer
from strata_bench.services import PostgreSQL
from strata_bench.waiting import eventually

from .conftest import BESIDE_PODS, DOMAIN, Change, StartReconciler
from .kubelet import Kubelet
from .users import IMAGE, SECONDS, User


def objects(server: ApiServer, kinds: str, namespace: str = "research") -> list[dict[str, Any]]:
    """Objects of a namespace."""
    items: list[dict[str, Any]] = json.loads(server.kubectl("-n", namespace, "get", kinds, "-o", "json"))["items"]
    return items


def test_a_pod_lives_as_tapis_has_it(
    alice: User, start_reconciler: StartReconciler, kubelet: Kubelet, api_server: ApiServer
) -> None:
    with start_reconciler():
        created = alice.create("web1", networking={"default": {"port": 8000}, "admin": {"port": 8001}})
        assert created["status"] == "REQUESTED"
        running = alice.wait("web1", "AVAILABLE")
        assert running["networking"]["default"]["url"] == f"web1.{DOMAIN}"
        assert running["networking"]["admin"]["url"] == f"web1-admin.{DOMAIN}"
        assert running["start_instance_ts"] < running["time_to_stop_ts"]
        rules = [rule for ingress in objects(api_server, "ingresses") for rule in ingress["spec"]["rules"]]
        hosts = {rule["host"]: rule["http"]["paths"][0]["backend"]["service"] for rule in rules}
        assert hosts == {
            f"web1.{DOMAIN}": {"name": "pods-web1", "port": {"number": 8000}},
            f"web1-admin.{DOMAIN}": {"name": "pods-web1", "port": {"number": 8001}},
        }
        (pod,) = objects(api_server, "pods")
        assert pod["metadata"]["annotations"]["strata.dev/user"] == "alice"
        (service,) = objects(api_server, "services")
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        hello = "hello from research/pods-web1/main\n"
        assert alice("GET", "/web1/logs").json()["result"]["logs"] == hello

        assert alice("GET", "/web1/stop").status_code == 200
        stopped = alice.wait("web1", "STOPPED")
        assert (stopped["status_requested"], stopped["time_to_stop_ts"]) == ("OFF", None)
        assert not objects(api_server, f"pods,{BESIDE_PODS}")
        assert alice("GET", "/web1/logs").json()["result"]["logs"] == hello

        assert alice("POST", "/web1/start").status_code == 200
        alice.wait("web1", "AVAILABLE")
        assert alice("GET", "/web1/start").status_code == 409
        logs = alice("GET", "/web1/logs").json()["result"]
        assert logs["logs"] == f"{hello}--- run 2 ---\n{hello}"
        assert any(line.endswith("stop requested by alice") for line in logs["action_logs"])

        (before,) = objects(api_server, "pods")
        assert alice("PUT", "/web1", {"environment_variables": {"A": "b"}}).status_code == 200
        assert alice("GET", "/web1/restart").status_code == 200

        def restarted() -> bool:
            pods = objects(api_server, "pods")
            return bool(pods) and pods[0]["metadata"]["uid"] != before["metadata"]["uid"]

        eventually(restarted, SECONDS, "another pod runs")
        (after,) = objects(api_server, "pods")
        # the site's variables, unless the pod has its own
        site = {"name": "HF_ENDPOINT", "value": "http://models"}
        assert before["spec"]["containers"][0]["env"] == [{"name": "A", "value": "site"}, site]
        assert after["spec"]["containers"][0]["env"] == [{"name": "A", "value": "b"}, site]
        alice.wait("web1", "AVAILABLE")

        assert alice("DELETE", "/web1").status_code == 200
        assert alice("GET", "/web1").status_code == 404
        eventually(lambda: not objects(api_server, f"pods,{BESIDE_PODS}"), SECONDS, "nothing is left")

        def free() -> bool:
            return alice("POST", "", {"pod_id": "web1", "image": IMAGE, "status_requested": "OFF"}).status_code == 200

        eventually(free, SECONDS, "the name is free")


def test_containers_that_end_or_fail(alice: User, start_reconciler: StartReconciler, kubelet: Kubelet) -> None:
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    kubelet.states |= {
        "open/ends": {"phase": "Succeeded", "state": {"terminated": {"exitCode": 0}}},
        "open/absent": {"phase": "Pending", "state": {"waiting": waiting}},
    }
    with start_reconciler():
        open_images = IMAGE.replace("site/web", "open/")
        alice.create("ends", image=f"{open_images}ends")
        alice.create("absent", image=f"{open_images}absent")
        alice.wait("ends", "COMPLETE")
        assert alice("GET", "/ends/logs").json()["result"]["logs"] == "hello from research/pods-ends/main\n"
        failed = alice.wait("absent", "ERROR")
        assert failed["status_container"]["message"] == "ImagePullBackOff no such image"
        assert alice("POST", "/ends/restart").status_code == 200
        eventually(
            lambda: len([name for name, _ in kubelet.created if name == "pods-ends"]) == 2, SECONDS, "it ran again"
        )


def test_pods_wait_for_room_in_the_quota(
    alice: User, start_reconciler: StartReconciler, kubelet: Kubelet, api_server: ApiServer
) -> None:
    api_server.kubectl("-n", "research", "create", "quota", "small", "--hard=limits.memory=4Gi")

    def use(used: str) -> None:
        # in place of the controller, which the API server of the tests is without
        status = json.dumps({"status": {"hard": {"limits.memory": "4Gi"}, "used": {"limits.memory": used}}})
        patch = ("--subresource=status", "--type=merge", "-p", status)
        api_server.kubectl("-n", "research", "patch", "quota", "small", *patch)

    try:
        use("0")
        with start_reconciler():
            alice.create("first")
            alice.wait("first", "AVAILABLE")
            alice.create("second")
            message = "used: limits.memory=3Gi, limited: limits.memory=4Gi"
            eventually(
                lambda: message in alice.pod("second")["status_container"].get("message", ""),
                SECONDS,
                "the second shows what is used",
            )
            assert alice.pod("second")["status"] == "REQUESTED"
            assert alice("GET", "/first/stop").status_code == 200
            alice.wait("first", "STOPPED")
            use("0")
            alice.wait("second", "AVAILABLE")
    finally:
        api_server.kubectl("-n", "research", "delete", "quota", "small")


def test_a_pod_ends_when_its_time_is_over(
    alice: User,
    start_reconciler: StartReconciler,
    kubelet: Kubelet,
    change: Change,
) -> None:
    with start_reconciler():
        alice.create("brief", time_to_stop_default=300)
        alice.wait("brief", "AVAILABLE")
        change("brief", "time_to_stop_ts = now()")
        alice.wait("brief", "STOPPED")
        actions = alice("GET", "/brief/logs").json()["result"]["action_logs"]
        assert any(line.endswith("time_to_stop reached") for line in actions)


def test_what_is_lost_in_kubernetes_comes_back_and_what_is_strange_goes(
    alice: User, start_reconciler: StartReconciler, kubelet: Kubelet, api_server: ApiServer, tmp_path: Path
) -> None:
    with start_reconciler():
        alice.create("web1")
        alice.wait("web1", "AVAILABLE")
        api_server.kubectl("-n", "research", "delete", "pod,service,ingress", "pods-web1", "--now")

        def back() -> bool:
            kinds = sorted(item["kind"] for item in objects(api_server, "pods,services,ingresses"))
            return kinds == ["Ingress", "Pod", "Service"]

        eventually(back, SECONDS, "all three are there again")
        alice.wait("web1", "AVAILABLE")
        labels = "app.kubernetes.io/managed-by=strata-pods,strata.dev/pod=stray"
        api_server.kubectl("-n", "research", "run", "pods-stray", "--image=none", f"--labels={labels}")
        eventually(lambda: len(objects(api_server, "pods")) == 1, SECONDS, "the stray pod is gone")
        own = {"app.kubernetes.io/managed-by": "strata-pods", "strata.dev/pod": "stray"}
        stray = {
            "apiVersion": "traefik.io/v1alpha1",
            "kind": "IngressRouteTCP",
            "metadata": {"name": "pods-stray-line", "namespace": "research", "labels": own},
            "spec": {"routes": []},
        }
        (tmp_path / "stray.yaml").write_text(json.dumps(stray))
        api_server.kubectl("apply", "--filename", str(tmp_path / "stray.yaml"))
        eventually(lambda: not objects(api_server, "ingressroutetcps"), SECONDS, "the stray route is gone")


def test_the_log_of_a_pod_that_a_drain_deletes_is_kept(
    alice: User, start_reconciler: StartReconciler, kubelet: Kubelet, api_server: ApiServer
) -> None:
    hello = "hello from research/pods-web1/main\n"
    with start_reconciler():
        alice.create("web1")
        alice.wait("web1", "AVAILABLE")
        with kubelet.turn:
            api_server.kubectl("-n", "research", "delete", "pod", "pods-web1", "--wait=false")
            moving = alice.wait("web1", "CREATING")
            assert moving["status_container"]["message"] == "the pod is moving"
        alice.wait("web1", "AVAILABLE")
        assert alice("GET", "/web1/logs").json()["result"]["logs"] == f"{hello}--- run 1 ---\n{hello}"
        assert alice("GET", "/web1/stop").status_code == 200
        alice.wait("web1", "STOPPED")
        assert alice("GET", "/web1/logs").json()["result"]["logs"] == hello


def test_a_name_leads_to_a_container_that_runs_only(
    alice: User, start_reconciler: StartReconciler, kubelet: Kubelet, api_server: ApiServer
) -> None:
    def turn(state: dict[str, Any]) -> None:
        status = {
            "name": "main",
            "ready": "running" in state,
            "restartCount": 1,
            "state": state,
            "image": "",
            "imageID": "",
        }
        patch = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": {"containerStatuses": [status]}}))
        api_server.kubectl("-n", "research", "patch", "pod", "pods-web1", *patch)

    with start_reconciler():
        alice.create("web1")
        alice.wait("web1", "AVAILABLE")
        (before,) = objects(api_server, "services")
        assert len(objects(api_server, "ingresses")) == 1
        turn({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}})
        alice.wait("web1", "ERROR")
        assert not objects(api_server, "ingresses")
        turn({"running": {"startedAt": "2026-01-01T00:00:00Z"}})
        alice.wait("web1", "AVAILABLE")
        assert len(objects(api_server, "ingresses")) == 1
        (after,) = objects(api_server, "services")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]


def test_20_pods_at_once(
    alice: User, start_reconciler: StartReconciler, kubelet: Kubelet, user: Callable[..., User]
) -> None:
    with start_reconciler():
        for number in range(20):
            alice.create(f"many{number:03}")
        eventually(
            lambda: [pod["status"] for pod in alice("GET").json()["result"]] == ["AVAILABLE"] * 20,
            SECONDS,
            "all 20 run",
        )


def test_a_pod_is_stopped_when_nothing_of_it_runs_and_starts_again_when_it_is_gone(
    alice: User, start_reconciler: StartReconciler, kubelet: Kubelet, api_server: ApiServer
) -> None:
    with start_reconciler():
        alice.create("web1")
        alice.wait("web1", "AVAILABLE")
        with kubelet.turn:
            assert alice("GET", "/web1/stop").status_code == 200
            alice.wait("web1", "DELETING")
            status = {"name": "main", "ready": False, "restartCount": 0, "image": "", "imageID": ""}
            status["state"] = {"terminated": {"exitCode": 137, "reason": "Error"}}
            patch = (
                "--subresource=status",
                "--type=merge",
                "-p",
                json.dumps({"status": {"containerStatuses": [status]}}),
            )

            def terminated() -> bool:
                (pod,) = objects(api_server, "pods")
                if "deletionTimestamp" not in pod["metadata"]:
                    return False
                api_server.kubectl("-n", "research", "patch", "pod", "pods-web1", *patch)
                return True

            eventually(terminated, SECONDS, "Kubernetes deletes the pod")
            alice.wait("web1", "STOPPED")
            (before,) = objects(api_server, "pods")
            assert not objects(api_server, BESIDE_PODS)
            assert alice("GET", "/web1/start").status_code == 200
            alice.wait("web1", "REQUESTED")
        alice.wait("web1", "AVAILABLE")
        (after,) = objects(api_server, "pods")
        assert before["metadata"]["uid"] != after["metadata"]["uid"]


def test_what_changes_in_one_tenant_is_compared_there_alone(
    alice: User,
    start_reconciler: StartReconciler,
    kubelet: Kubelet,
    api_server: ApiServer,
    postgresql: PostgreSQL,
    user: Callable[..., User],
) -> None:
    begin = postgresql.sql("SELECT now()")

    def listens() -> bool:
        sessions = f"FROM pg_stat_activity WHERE query = 'LISTEN pods' AND backend_start > '{begin}'"
        return postgresql.sql(f"SELECT count(*) {sessions}") == "1"  # of this test

    def stray() -> bool:
        return "pods-stray" in {item["metadata"]["name"] for item in objects(api_server, "services", "teaching")}

    labels = "app.kubernetes.io/managed-by=strata-pods,strata.dev/pod=stray"
    with start_reconciler(resync_seconds=60):
        # once it listens it compares all tenants, to miss nothing
        eventually(listens, SECONDS, "the reconciler listens for requests")
        alice.create("first")
        alice.wait("first", "AVAILABLE")
        api_server.kubectl("-n", "teaching", "create", "service", "clusterip", "pods-stray", "--tcp=80")
        api_server.kubectl("-n", "teaching", "label", "service", "pods-stray", *labels.split(","))
        alice.create("second")
        alice.wait("second", "AVAILABLE")
        assert stray()
        carol = user("carol", "teaching")
        carol.create("third")
        eventually(lambda: not stray(), SECONDS, "the stray service is gone")
