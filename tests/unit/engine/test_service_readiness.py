"""`up` ends when the services answer by every node, and not by a pod that is about to go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace, TracebackType
from typing import Any, cast

import pytest
import requests

from strata.access.kubectl import Unanswered
from strata.catalogue.published import PublishedService
from strata.engine import service_readiness
from strata.errors import UserError
from strata.site.context import SiteContext

SERVICES = (
    PublishedService("ml_hub", "ml-hub", "ml-hub.lab.test", "/healthz"),
    PublishedService("plain", "plain", "plain.lab.test", ""),
)
NODES = ("worker-1", "gpu-worker-1")


class Clock:
    """Time that only passes when it is slept."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """At once."""
        self.now += seconds


@dataclass
class FakeSession:
    """A load balancer: answers in turn, the last one for ever; an exception is raised."""

    answers: Iterator[int | Exception]
    asked: list[str] = field(default_factory=list)

    def __enter__(self) -> FakeSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to close."""

    def get(self, url: str, **_: Any) -> SimpleNamespace:
        """Notes the request."""
        self.asked.append(url)
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(status_code=answer)


class Quiet:
    """A progress that stores its messages."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def update(self, text: str) -> None:
        """Stores it."""
        self.messages.append(text)


def then_good(*first: int | Exception) -> Iterator[int | Exception]:
    """These answers, then 200 for ever."""
    yield from first
    while True:
        yield 200


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A site of two nodes and two services, whose pods are as they shall be."""
    clock = Clock()
    monkeypatch.setattr("strata.retry.time", clock)
    monkeypatch.setattr(service_readiness, "published", lambda _: SERVICES)
    monkeypatch.setattr(service_readiness, "hosts_with", lambda *_: ("services-1",))
    monkeypatch.setattr(service_readiness, "ingress_nodes", lambda *_: NODES)
    monkeypatch.setattr(service_readiness, "installed", lambda _: (SimpleNamespace(namespace_of=lambda _: "services"),))
    monkeypatch.setattr(service_readiness, "kubectl_json", lambda *_: {"items": [{"metadata": {"name": "ml-hub-1"}}]})
    return clock


def wait(monkeypatch: pytest.MonkeyPatch, session: FakeSession) -> Quiet:
    """Waits with this session."""
    progress = Quiet()
    monkeypatch.setattr(service_readiness, "site_session", lambda _: session)
    site = SimpleNamespace(domain="lab.test")
    context = cast("SiteContext", SimpleNamespace(site=site, cloud_outputs=None))
    service_readiness.wait_for_services(context, cast("Any", progress))
    return progress


def test_each_service_is_asked_once_for_each_node(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession(then_good())
    wait(monkeypatch, session)
    assert session.asked == 2 * ["https://ml-hub.lab.test/healthz"] + 2 * ["https://plain.lab.test/"]
    assert clock.now == 0


@pytest.mark.parametrize("bad", [503, 404, requests.ConnectionError("refused")])
def test_a_node_that_still_sends_to_a_pod_that_went_is_waited_for(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, bad: int | Exception
) -> None:
    session = FakeSession(then_good(200, bad, 200, 200, 200, bad))
    progress = wait(monkeypatch, session)
    assert clock.now == 1.0
    assert progress.messages[0].startswith("waiting for https://ml-hub.lab.test/healthz: ")


def test_a_service_without_a_path_may_have_no_page(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    wait(monkeypatch, FakeSession(then_good(200, 200, 404, 404)))
    assert clock.now == 0


def test_nothing_is_asked_while_a_pod_ends(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would answer, and be gone when `up` states that it is done."""
    ends = {"deletionTimestamp": "2026-11-22T09:12:02Z"}
    of_a_deployment, of_a_user = {"name": "ml-hub-0", "ownerReferences": [{}]}, {"name": "notebook"}
    going = {"items": [{"metadata": of_a_deployment | ends}, {"metadata": of_a_user | ends}]}
    answers = iter([going, Unanswered("unreachable: refused"), {"items": []}])

    def pods(*_: Any) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(service_readiness, "kubectl_json", pods)
    progress = wait(monkeypatch, FakeSession(then_good()))
    assert clock.now == 1.0
    assert progress.messages == [
        "waiting for ml-hub-0 to end",
        "waiting for the API server: unreachable: refused",
    ]


def test_who_never_answers_is_named(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"do not respond: https://ml-hub\.lab\.test/healthz: 503") as raised:
        wait(monkeypatch, FakeSession(iter([503] * 1000)))
    assert "kubectl get pods" in str(raised.value.fix)
    assert clock.now >= service_readiness.PUBLISHED_SECONDS


def test_a_site_without_a_load_balancer_has_no_load_balancer_address(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr(service_readiness, "hosts_with", lambda *_: ())
    session = FakeSession(iter([]))
    wait(monkeypatch, session)
    assert session.asked == []
    assert clock.now == 0
