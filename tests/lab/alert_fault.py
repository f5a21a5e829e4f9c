"""What a fault is that provokes an alert, and the faults of which others are made."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strata.site.context import SiteContext
from strata.site.host_list import hosts_with
from strata.verify.pods import PodRequest, delete

if TYPE_CHECKING:
    from testinfra.host import Host

NAME = "strata-alert"
"""Of pods, files and units of the faults."""
NONROOT = (65534, 65534)


@dataclass(frozen=True)
class Lab:
    """The running lab.

    Args:
        context: of it.
        kubectl: as the fixture.
        host: testinfra's host by name.
    """

    context: SiteContext
    kubectl: Callable[..., str]
    host: Callable[[str], Host]

    def first(self, role: str) -> str:
        """Name of the first host with a role."""
        return hosts_with(role, self.context.site, self.context.cloud_outputs)[0].name

    def sh(self, name: str, command: str) -> str:
        """Output of a command on a host; it must succeed."""
        done = self.host(name).run(command)
        assert done.rc == 0, f"{name}: {command}: {done.stderr}"
        return str(done.stdout).strip()


Labels = Mapping[str, str]
Broken = Callable[[Lab], Iterator[Labels]]
"""A fault: breaks something, yields labels of the series that the alert's expression returns then, heals it.

Where the series are increases of counters, it may have healed before it yields: they are returned for a while."""


@dataclass(frozen=True)
class Fault:
    """How an alert is provoked.

    Args:
        breaking: the fault.
        window: in place of the windows and offsets in the expression, so that the fault is over sooner.
        replace: text of the expression, a threshold, and what is in its place.
    """

    breaking: Broken
    window: str = "1m"
    replace: tuple[str, str] | None = None


def lasting(breaking: Broken, lab: Lab) -> AbstractContextManager[Labels]:
    """A fault that lasts as long as the block."""
    return contextmanager(breaking)(lab)


def pod(namespace: str, script: str, **changes: Any) -> Broken:
    """A pod that runs a shell script.

    Args:
        namespace: of it.
        script: what it runs.
        changes: `container` is merged into its container, `spec` and `metadata` into these.
    """

    def broken(lab: Lab) -> Iterator[Labels]:
        name = f"{NAME}-{time.time_ns() // 1_000_000 % 10**8}"
        images = lab.context.image_outputs
        assert images is not None
        limits = {"memory": "64Mi"}
        command = ["sh", "-c", script]
        made = PodRequest(name, images.images["pod-base"], command, resources=limits, identity=NONROOT).manifest()
        made["metadata"] |= changes.get("metadata", {})
        made["spec"] |= changes.get("spec", {})
        made["spec"]["containers"][0] |= changes.get("container", {})
        lab.kubectl("--namespace", namespace, "create", "--filename", "-", input=json.dumps(made))
        try:
            yield {"namespace": namespace, "pod": name}
        finally:
            delete(lab.kubectl, namespace, name)

    return broken
