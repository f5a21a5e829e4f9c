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
from strata_services.jupyterhub.needs import QUOTA

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


@contextmanager
def reserved(hub: Hub, kind: str | None, name: str, **requests: str) -> Iterator[None]:
    """Something of research's uses its quota: the server of a user, a batch job, or a pod of the tenant."""
    labels = {"strata.dev/reservation": kind} if kind else {}
    metadata = {"name": f"reservation-{name}" if kind else name, "labels": labels}
    metadata |= {"annotations": {"strata.dev/reserved-for": name}}
    spec = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
    status, answer = hub.kubernetes.create("research", "pods", {"metadata": metadata, "spec": spec})
    assert status == 201, answer
    try:
        yield
    finally:
        hub.kubernetes.of("research", "pods").pop(str(metadata["name"]), None)


def refused_with(hub: Hub, user: str, configuration: dict[str, Any]) -> str:
    """Why the user's server does not start with a configuration."""
    assert hub.put("ada", f"research/configuration/users/{user}", configuration).ok
    return refused(hub, user)


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


def test_what_a_tenant_uses_counts_together(hub: Hub) -> None:
    """Its servers, batch jobs and own pods; the message names them, the largest user first."""
    assert hub.put("ada", "research/configuration/tenant", CARD).ok
    with reserved(hub, "server", "carol", **{"nvidia.com/gpu": "1"}):
        message = refused(hub, "bob")
        assert message == (
            "The quota of tenant research is reached: 1 of 1 v100 are used by the server of carol (1), and this server "
            "requests 1. Choose a smaller profile, ask them to stop what they do not need, or ask your principal "
            "investigators; operators of this site can raise the quota."
        )
        assert hub.pod("eve"), "another tenant's"
    assert hub.pod("bob")
    with reserved(hub, "server", "carol", cpu="500m"), reserved(hub, None, "train", cpu="2"):
        message = refused_with(hub, "bob", {"cpu_limit": 8, "cpu_guarantee": 8})
    used = "2.5 of 8 CPUs are used by the pod train (2), the server of carol (0.5), and this server requests 8."
    assert used in message
    assert not hub.kubernetes.of("research", "pods"), "what does not start holds no room"


def test_batch_jobs_give_their_room_to_servers(hub: Hub) -> None:
    """The newest first, and none if all of them would not suffice."""
    assert hub.put("ada", "research/configuration/users/bob", {"cpu_limit": 4, "cpu_guarantee": 4}).ok
    pods = hub.kubernetes.of("research", "pods")
    with ExitStack() as stack:
        for name in ("first", "second", "third"):
            stack.enter_context(reserved(hub, "job", name, cpu="2"))
        assert hub.pod("bob")
        assert set(pods) == {"reservation-first", "reservation-second"}
        stack.enter_context(reserved(hub, "server", "carol", cpu="3"))
        message = refused_with(hub, "bob", {"cpu_limit": 8, "cpu_guarantee": 8})
        assert "7 of 8 CPUs are used by batch jobs (4), the server of carol (3), and this server" in message
        assert set(pods) == {"reservation-first", "reservation-second", "reservation-carol"}


def test_a_server_holds_its_room_while_it_runs(full: Hub) -> None:
    assert start(full, "bob").status_code in (201, 202)
    *_, last = events(full, "bob")
    assert last["ready"] is True
    (pod,) = full.kubernetes.of("research", "pods").values()
    assert pod["metadata"]["annotations"] == {"strata.dev/reserved-for": "bob"}
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "100m", "memory": "268435456"}
    stop(full, "bob")
    assert not full.kubernetes.of("research", "pods")


COMPARE = """
import asyncio, json, sys
from datetime import UTC, datetime, timedelta
from kubernetes_asyncio import client
from strata_hub.reservations import Reservations
template, url = json.load(sys.stdin)
configuration = client.Configuration(host=url)
async def main():
    async with client.ApiClient(configuration) as api:
        reservations = Reservations(template, {}, {})
        later = datetime.now(UTC) + timedelta(minutes=5)
        await reservations.compare(client.CoreV1Api(api), ["research"], "jupyterhub", later)
asyncio.run(main())
"""


def test_reservations_follow_the_servers_that_run(hub: Hub) -> None:
    """One whose server is gone is deleted; a server of an earlier release gets one, if there is room."""
    template = QUOTA.provide(None)  # type: ignore[arg-type]  # it needs no context
    api, namespace = hub.kubernetes, "jupyterhub"
    labels = {"component": "singleuser-server", "strata.dev/tenant": "research"}
    for name, cpu in (("jupyter-ada", "1"), ("jupyter-large", "9")):
        spec = {"containers": [{"image": "notebook", "resources": {"requests": {"cpu": cpu}}}]}
        metadata = {"name": name, "labels": labels, "annotations": {"hub.jupyter.org/username": "ada"}}
        api.create(namespace, "pods", {"metadata": metadata, "spec": spec})
    try:
        with reserved(hub, "server", "jupyter-gone", cpu="1"), reserved(hub, "job", "execute-1", cpu="1"):
            done = run_code(COMPARE, text=json.dumps([template, api.url]))
            assert done.returncode == 0, done.stderr
            assert set(api.of("research", "pods")) == {"reservation-jupyter-ada", "reservation-execute-1"}
    finally:
        api.of(namespace, "pods").clear()
        api.of("research", "pods").clear()


def test_page_names_the_accelerator_that_is_not_free(hub: Hub) -> None:
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
        shown += [event["message"] for event in page]
        request.join()
    waits = (
        "No node has free v100: this server requests 1. Servers of this site use 0, none of your tenant. "
        "It starts as soon as enough is free; a profile that requests less may start now."
    )
    assert shown.count(waits) == 1
    assert shown[-1] == f"Spawn failed: The server did not start within 10 s. {waits} Try again later."


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
        return [server for server in servers if server not in self._queue]

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
