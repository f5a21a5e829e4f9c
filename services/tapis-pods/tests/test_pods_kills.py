"""The reconciler dies between any two of its steps: nothing is lost, and nothing is duplicated."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from contextlib import ExitStack

from strata_bench.api_server import ApiServer
from strata_bench.waiting import eventually

from .conftest import StartReconciler
from .kubelet import Kubelet
from .test_pods_life import objects
from .users import SECONDS, User

KILLS = 8


def test_pods_converge_while_the_reconciler_is_killed(
    alice: User, start_reconciler: StartReconciler, kubelet: Kubelet, api_server: ApiServer
) -> None:
    chance = random.Random(7)  # noqa: S311  # the same kills in each run
    names = [f"kill{number}" for number in range(8)]
    for name in names:
        alice.create(name)
    for _ in range(KILLS):
        with start_reconciler():
            # from before its first statement to the middle of its work
            time.sleep(chance.uniform(0.3, 2.0))
    with start_reconciler():
        for name in names:
            alice.wait(name, "AVAILABLE")
    begun = Counter(name for name, _ in kubelet.created if name.startswith("pods-kill"))
    assert begun == {f"pods-{name}": 1 for name in names}
    for name in names[:4]:
        assert alice("GET", f"/{name}/restart").status_code == 200
    for name in names[4:]:
        assert alice("DELETE", f"/{name}").status_code == 200
    for _ in range(KILLS):
        with start_reconciler():
            time.sleep(chance.uniform(0.3, 2.0))
    with start_reconciler():
        for name in names[:4]:
            alice.wait(name, "AVAILABLE")

        def left() -> list[str]:
            return sorted(item["metadata"]["name"] for item in objects(api_server, "pods,services,ingresses"))

        kept = sorted(f"pods-{name}" for name in names[:4] for _ in range(3))
        eventually(lambda: left() == kept, SECONDS, "deleted pods have left nothing")
    begun = Counter(name for name, _ in kubelet.created if name.startswith("pods-kill"))
    assert begun == {f"pods-{name}": 2 if name in names[:4] else 1 for name in names}
    logs = alice("GET", "/kill0/logs").json()["result"]["logs"]
    assert logs.startswith("hello from research/pods-kill0/main\n--- run 2 ---\n")


def test_one_of_several_reconcilers_is_active(
    alice: User, start_reconciler: StartReconciler, kubelet: Kubelet, api_server: ApiServer
) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(start_reconciler())
        alice.create("web1")
        alice.wait("web1", "AVAILABLE")
        stack.enter_context(start_reconciler())
        first.send_signal(signal.SIGKILL)
        alice.create("web2")
        alice.wait("web2", "AVAILABLE")
        eventually(lambda: len(objects(api_server, "pods")) == 2, SECONDS, "both pods run")
