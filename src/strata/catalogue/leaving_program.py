"""What ends at a service when a user leaves the site."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class LeavingProgram:
    """A program in a pod of a service, which ends what a user has there; to run it twice is not an error.

    It reads one JSON object, `{"name": …, "tenants": […], "dry_run": …}`: the user, all tenants of the site, and
    whether to report only. It prints one: `{"ended": ["1 server"], "folders": {"homes": "ada"}}`, where folders are the
    user's in the service's shared volumes, by the volume's name, or `{"problem": "why not"}`.

    Args:
        title: what ends, for progress: "sessions of JupyterHub".
        namespace: of the pod.
        workload: that runs it, as kubectl has it: `deployment/hub`.
        container: of the pod.
        command: to run there.
        seconds: how long it may take.
        issues: whether it ends what gets the user access to other services; such programs run first.
    """

    title: str
    namespace: str
    workload: str
    container: str
    command: tuple[str, ...]
    seconds: float = 120.0
    issues: bool = False
