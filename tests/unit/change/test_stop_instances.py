"""Instances are shut down before their volumes are detached."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from openstack.exceptions import ConflictException, ResourceFailure, ResourceTimeout, SDKException

from strata.engine import data_volumes
from strata.errors import UserError
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site.outputs import CloudOutputs, InstanceOutput


class Compute:
    """nova with two instances, which responds as openstacksdk does.

    Args:
        error: what ends the wait; None for an instance that shuts down.
        status: of the instance then.
        task: its state of the task then.
    """

    def __init__(self, error: SDKException | None = None, status: str = "SHUTOFF", task: str | None = None) -> None:
        self.error, self.status, self.task = error, status, task
        self.stopped: list[str] = []

    def servers(self, **_: Any) -> list[SimpleNamespace]:
        names = ("services-1", "worker-1")
        return [SimpleNamespace(id=f"id-of-{name}", status="ACTIVE", task_state=None) for name in names]

    def stop_server(self, server: SimpleNamespace) -> None:
        self.stopped.append(server.id)
        if isinstance(self.error, ConflictException):
            raise self.error

    def wait_for_server(self, server: SimpleNamespace, **_: Any) -> None:
        server.status, server.task_state = self.status, self.task
        if self.error is not None:
            raise self.error


def stop(context: SiteContext, compute: Compute, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are to be shut down; services-1 alone has a volume."""

    def output(name: str, **attached: str) -> InstanceOutput:
        return InstanceOutput(
            id=f"id-of-{name}", name=name, address="10.77.0.5", flavor="f", roles=(), volumes=attached
        )

    instances = {"services-1": output("services-1", exports="id-of-exports"), "worker-1": output("worker-1")}
    CloudOutputs(instances=instances, networks={}).save(context.paths)
    monkeypatch.setattr(data_volumes, "connect", lambda _: nullcontext(SimpleNamespace(compute=compute)))
    data_volumes.stop_instances(context, instances, Silent())


def test_instances_with_volumes_are_shut_down(context: SiteContext, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = Compute()
    stop(context, compute, monkeypatch)
    assert compute.stopped == ["id-of-services-1"]


@pytest.mark.parametrize(
    ("error", "status", "task", "reported"),
    [
        (ResourceTimeout("Timeout waiting"), "ACTIVE", "powering-off", "ACTIVE (powering-off); Timeout waiting"),
        (ResourceFailure("transitioned to failure state"), "ERROR", None, "ERROR; transitioned"),
        (ConflictException("the instance is locked"), "ACTIVE", None, "ACTIVE; the instance is locked"),
    ],
)
def test_one_that_does_not_shut_down_is_named_with_its_state(
    context: SiteContext,
    monkeypatch: pytest.MonkeyPatch,
    error: SDKException,
    status: str,
    task: str | None,
    reported: str,
) -> None:
    with pytest.raises(UserError, match="instance services-1 does not shut down") as refused:
        stop(context, Compute(error, status, task), monkeypatch)
    assert f"nova reports the status {reported}" in refused.value.message
    assert "openstack server stop id-of-services-1" in (refused.value.fix or "")
    assert f"strata up {context.site.name}" in (refused.value.fix or "")
