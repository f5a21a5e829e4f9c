"""Starts that do not fit: into the tenant's quota, into the site's free accelerators, below `maximum_servers`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import requests

from strata_bench.waiting import eventually

from .image_code import notebook_server, run_code
from .running_hub import Hub

pytestmark = pytest.mark.xdist_group("jupyterhub-hub")
SECONDS = 60
CARD = {"accelerators": {"v100": 1}}
NO_CARD = (
    "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint(s). preemption: 0/3 nodes "
    "are available: 1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
)
"""As Kubernetes' scheduler writes it."""
EXCEEDED = (
    'pods "jupyter-bob" is forbidden: exceeded quota: site, requested: requests.cpu=1, used: requests.cpu=8, '
    "limited: requests.cpu=8"
)
"""As Kubernetes' API server writes it."""


@contextmanager
def running(hub: Hub, user: str, **changes: Any) -> Iterator[dict[str, Any]]:
    """The user's pod is in Kubernetes, as the hub would create it now."""
    pod = hub.pod(user)
    pod["spec"]["nodeName"] = "gpu-1"
    pod["status"] = {"phase": "Running", **changes}
    file = hub.directory / f"{user}.kubernetes"
    file.write_text(json.dumps(pod))
    try:
        yield pod
    finally:
        file.unlink()


def start(hub: Hub, user: str) -> requests.Response:
    hub.token(user)
    return hub.call(hub.operator, "POST", f"/api/users/{user}/server", {"profile": "standard"})


def refused(hub: Hub, user: str) -> str:
    """Why the user's server does not start."""
    (hub.directory / f"{user}.pod").unlink(missing_ok=True)
    response = start(hub, user)
    assert response.status_code == 409, response.text
    return str(response.json()["message"])


def events(hub: Hub, user: str) -> Iterator[dict[str, Any]]:
    """What the page of the start shows."""
    url = f"{hub.url}/api/users/{user}/server/progress"
    with requests.get(url, headers={"Authorization": f"token {hub.operator}"}, stream=True, timeout=SECONDS) as stream:
        assert stream.status_code == 200, stream.text
        for line in stream.iter_lines(decode_unicode=True):
            if line.startswith("data:"):
                yield json.loads(line.removeprefix("data:"))


def until_pending(hub: Hub, user: str) -> None:
    eventually(
        lambda: hub.call(hub.operator, "GET", f"/api/users/{user}").json()["pending"], SECONDS, "a start", pause=0.05
    )


def test_servers_of_a_tenant_share_its_quota_of_accelerators(hub: Hub) -> None:
    assert hub.put("ada", "research/configuration/tenant", CARD).ok
    with running(hub, "carol"):
        message = refused(hub, "bob")
        assert not (hub.directory / "bob.pod").exists()
        assert message == (
            "The quota of tenant research is reached: 1 of 1 v100 requested by the servers of carol, and this server "
            "requests 1. Choose a smaller profile, ask them to stop a server, or ask your principal investigators; "
            "the operators of this site can raise the quota."
        )
        # her own server, for instance one that ends, is in nobody's way
        assert hub.container("carol")["resources"]["limits"]["nvidia.com/gpu"] == "1"
        assert hub.pod("eve"), "another tenant's"
    with running(hub, "carol", phase="Succeeded"):
        assert hub.pod("bob")
    with running(hub, "carol") as pod:
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        (hub.directory / "carol.kubernetes").write_text(json.dumps(pod))
        assert hub.pod("bob"), "the scheduler waits for the accelerator of one that stops"


KINDS = """
import json, sys
from strata_hub import TENANT_LABEL
from strata_hub.quota import StartError, check, servers
limits, (mine, *others), accelerators = json.load(sys.stdin)
pod = lambda kind: {
    "metadata": {"name": kind, "labels": {TENANT_LABEL: "research"}}, "status": {"phase": "Running"},
    "spec": {"nodeSelector": {"gpu": kind}, "containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
}
(needed,) = servers([pod(mine)], "research", accelerators).values()
try:
    check("research", needed, servers(map(pod, others), "research", accelerators), limits)
    print("starts")
except StartError as error:
    print(error.jupyterhub_message)
"""


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        (["t4", "v100"], "starts"),
        (["v100", "v100"], "starts"),
        (["t4", "t4"], "The quota of tenant research is reached: 1 of 1 t4 requested by the servers of t4"),
    ],
)
def test_kinds_of_one_resource_count_by_themselves(kinds: list[str], found: str) -> None:
    """The quota names t4 only; a v100 takes none of it, and is for profiles to limit."""
    accelerators = {kind: {"resource": "nvidia.com/gpu", "nodeSelector": {"gpu": kind}} for kind in ("t4", "v100")}
    done = run_code(KINDS, text=json.dumps([{"t4": 1}, kinds, accelerators]))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(found)


def test_servers_of_a_tenant_share_its_cpus_and_memory(hub: Hub) -> None:
    with running(hub, "carol"):
        assert hub.put("ada", "research/configuration/users/bob", {"cpu_limit": 8, "cpu_guarantee": 8}).ok
        assert "is reached: 0.1 of 8 CPUs requested by the servers of carol, and this server requests 8." in refused(
            hub, "bob"
        )
        assert hub.put("ada", "research/configuration/users/bob", {"mem_limit": "16G", "mem_guarantee": "16G"}).ok
        assert "is reached: 0.25 GiB of 16 GiB memory requested by the servers of carol" in refused(hub, "bob")
        assert hub.put("ada", "research/configuration/users/bob", {"mem_limit": "15G", "mem_guarantee": "15G"}).ok
        assert hub.pod("bob")


def test_page_names_the_accelerator_that_is_not_free(hub: Hub) -> None:
    """Meanwhile the server counts for its tenant, although Kubernetes reports no pod with the label yet."""
    assert hub.put("ada", "research/configuration/tenant", CARD).ok
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": NO_CARD}
    with running(hub, "impatient", phase="Pending", conditions=[condition]) as pod:
        del pod["spec"]["nodeName"], pod["metadata"]["labels"]
        (hub.directory / "impatient.kubernetes").write_text(json.dumps(pod))
        answers: list[requests.Response] = []
        request = threading.Thread(target=lambda: answers.append(start(hub, "impatient")))
        request.start()
        until_pending(hub, "impatient")
        page = events(hub, "impatient")
        shown = [next(page)["message"]]
        while not shown[-1].startswith("No node"):
            shown.append(next(page)["message"])
        message = refused(hub, "bob")
        shown += [event["message"] for event in page]
        request.join()
    waits = (
        "No node has free v100: this server requests 1. Servers of this site use 0, none of your tenant. "
        "It starts as soon as enough is free; a profile that requests less may start now."
    )
    assert shown.count(waits) == 1
    assert shown[-1] == f"Spawn failed: The server did not start within 10 s. {waits} Try again later."
    assert "1 of 1 v100 requested by the servers of impatient" in message


def test_quota_of_kubernetes_is_named(hub: Hub) -> None:
    file = hub.directory / "bob.refused"
    file.write_text(json.dumps({"kind": "Status", "code": 403, "reason": "Forbidden", "message": EXCEEDED}))
    try:
        message = refused(hub, "bob")
    finally:
        file.unlink()
    assert message.startswith(
        "The quota for all servers of this site is reached: site, requested: requests.cpu=1, used: requests.cpu=8, "
        "limited: requests.cpu=8. "
    )


@pytest.fixture
def full(hub: Hub) -> Iterator[Hub]:
    """One server may run at a time, and all of them respond."""
    users = ("bob", "carol", "eve")
    with ExitStack() as stack:
        port = str(stack.enter_context(notebook_server()))
        for name, text in [("maximum", "1"), *((f"{user}.address", port) for user in users)]:
            (hub.directory / name).write_text(text)
            stack.callback((hub.directory / name).unlink)
        for user in users:
            stack.callback(stop, hub, user)
        yield hub


def stop(hub: Hub, user: str) -> None:
    eventually(
        lambda: hub.call(hub.operator, "DELETE", f"/api/users/{user}/server").status_code in (204, 404),
        SECONDS,
        f"the server of {user} has stopped",
    )


def test_servers_queue_while_as_many_run_as_may(full: Hub) -> None:
    """In their order; none is refused."""
    assert start(full, "bob").status_code in (201, 202)
    waiting = {}
    for user in ("carol", "eve"):
        waiting[user] = threading.Thread(target=start, args=(full, user))
        waiting[user].start()
        until_pending(full, user)
    texts = {}
    for user in waiting:
        page = events(full, user)
        texts[user] = next(text for event in page if (text := event["message"]).startswith("All"))
        page.close()  # type: ignore[attr-defined]  # a generator
    assert texts["carol"].startswith(
        "All 1 servers of this site are in use; you are the next. Your server starts as soon"
    )
    assert "1 wait before you" in texts["eve"]
    assert ", an idle one at " in texts["eve"]
    stop(full, "bob")
    *_, last = events(full, "carol")
    assert last["ready"] is True
    assert full.call(full.operator, "GET", "/api/users/eve").json()["pending"] == "spawn"
    stop(full, "carol")
    *_, last = events(full, "eve")
    assert last["ready"] is True
    for thread in waiting.values():
        thread.join()


TURNS = """
import asyncio
from types import SimpleNamespace
from strata_hub import waiting

class Server:
    def __init__(self, name):
        self.name, self.orm_spawner = name, SimpleNamespace()
    _queue = []
    def _running(self):
        return [one for one in servers if one not in self._queue]

polls, order = {}, []

async def poll(server):
    polls.pop(server).set_result(None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)

async def turn(server):
    servers.append(server)
    await waiting.SiteSpawner._turn(server, 3)
    order.append(server.name)

async def main():
    tasks = []
    for server in queued:
        async def sleep(_, server=server):
            polls[server] = asyncio.get_running_loop().create_future()
            await polls[server]
        waiting.asyncio = SimpleNamespace(sleep=lambda seconds: sleep(seconds))
        tasks.append(asyncio.ensure_future(turn(server)))
        await asyncio.sleep(0)
        server.sleep = sleep
    for stopped, polling in ((1, 1), (0, 0), (2, 2), (0, 1)):
        del servers[:stopped]
        waiting.asyncio = SimpleNamespace(sleep=queued[polling].sleep)
        await poll(queued[polling])
    await asyncio.wait_for(asyncio.gather(*tasks), 30)
    print(*order)

servers = [Server(name) for name in "xyz"]
queued = [Server(name) for name in "abc"]
asyncio.run(main())
"""


def test_all_servers_that_stop_make_place_at_once() -> None:
    """With one place, only the first in the queue starts, whichever checks first; with two, the second does not wait
    for the first's check."""
    done = run_code(TURNS)
    assert done.stderr == ""
    assert done.stdout.split() == ["a", "c", "b"]
