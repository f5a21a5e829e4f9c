"""200 pods of one tenant, created 20 at once while the reconciler dies: each runs once."""

from __future__ import annotations

import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from strata_bench.api_server import ApiServer
from strata_bench.waiting import eventually

from .conftest import StartReconciler
from .kubelet import Kubelet
from .test_pods_life import objects
from .users import User

COUNT, TOGETHER = 200, 20
SECONDS = 600.0


@pytest.mark.nightly
def test_200_pods_run_once_each_and_leave_nothing(
    alice: User, start_reconciler: StartReconciler, kubelet: Kubelet, api_server: ApiServer
) -> None:
    names = [f"many{number:03}" for number in range(COUNT)]

    def available() -> int:
        return sum(pod["status"] == "AVAILABLE" for pod in alice("GET", "").json()["result"])

    with start_reconciler() as first, ThreadPoolExecutor(TOGETHER) as pool:
        list(pool.map(alice.create, names))
        eventually(lambda: available() >= COUNT // 4, SECONDS, "a part of the pods runs")
        first.send_signal(signal.SIGKILL)
    with start_reconciler():
        eventually(lambda: available() == COUNT, SECONDS, f"{COUNT} pods run")
        begun = Counter(name for name, _ in kubelet.created if name.startswith("pods-many"))
        assert begun == {f"pods-{name}": 1 for name in names}
        alice("GET", f"/{names[100]}/stop")
        alice.wait(names[100], "STOPPED")
        with ThreadPoolExecutor(TOGETHER) as pool:
            list(pool.map(lambda name: alice("DELETE", f"/{name}"), names))
        eventually(lambda: not alice("GET", "").json()["result"], SECONDS, "no pod is listed")
        eventually(lambda: not objects(api_server, "pods,services,ingresses"), SECONDS, "deleted pods left nothing")
