"""Nodes that still send to pods that have gone, as after the API server was away: `up` states that it is done when the
services answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import requests

from strata.models.site import Site
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with

from .commands import up
from .editing import edit
from .lab_site import require_lab

if TYPE_CHECKING:
    from testinfra.host import Host

pytestmark = pytest.mark.nightly

STALE_SECONDS = 40.0
"""From before `up` until the nodes hear of the new pods; rolling them takes about 15 s, the old ones' end as long."""


@pytest.fixture
def stale(context: SiteContext, site: Site, site_host: Callable[[str], Host]) -> Iterator[Callable[[], None]]:
    """Stops each node's kube-proxy; what is called has them go on."""
    require_lab(context)
    with ExitStack() as stack:
        for node in hosts_with("kube_node", site, context.cloud_outputs):
            host = site_host(node.name)
            (process,) = host.check_output("pgrep -x kube-proxy").split()
            stack.callback(host.run, f"kill -CONT {process}")
            host.check_output(f"kill -STOP {process}")
        yield stack.close


def test_up_ends_when_every_node_knows_the_new_pods(
    context: SiteContext, http: requests.Session, stale: Callable[[], None], tmp_path: Path
) -> None:
    edited = edit(context, tmp_path / "site", lambda _: None)
    (edited.parent / "values").mkdir(exist_ok=True)
    (edited.parent / "values" / "ml-hub.yaml").write_text("podAnnotations: {example.org/release: another}\n")
    go_on = threading.Timer(STALE_SECONDS, stale)
    go_on.start()
    try:
        up(edited, "--layer", "platform")
        assert not go_on.is_alive(), "it was done before any node could know of the new pods"
        for _ in range(4):
            answer = http.get(f"https://ml-hub.{context.site.domain}/readyz", timeout=10)
            assert answer.status_code == 200
    finally:
        go_on.cancel()
        go_on.join()
        up(context.site_file, "--layer", "platform")
