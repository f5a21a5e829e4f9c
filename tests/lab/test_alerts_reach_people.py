"""An alert of the running site reaches an operator: from the fault on a host to the webhook, and its end as well."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from strata.models import Site
from strata.site.context import SiteContext
from strata.site.hosts import hosts_with
from strata_bench.https_server import https_server
from strata_bench.waiting import eventually
from strata_services.prometheus_server.service import SERVICE as PROMETHEUS

from .commands import up
from .editing import edit
from .lab_site import require_lab

if TYPE_CHECKING:
    from testinfra.host import Host

pytestmark = pytest.mark.nightly

UNIT = "docker-registry-push"
ALERT_SECONDS = 900
"""Scrape, the rule's duration, the group's wait."""


class Hook(BaseHTTPRequestHandler):
    """The operator's webhook."""

    posts: list[dict[str, Any]]

    def do_POST(self) -> None:
        """Keeps what is posted."""
        self.posts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def posts(context: SiteContext, site: Site, tmp_path: Path) -> Iterator[list[dict[str, Any]]]:
    """What the site's Alertmanager posts; the site is as its file says afterwards."""
    require_lab(context)
    if PROMETHEUS.of(site) is None or site.cloud is None:
        pytest.skip(f"site {site.name} has no cloud, or no platform.services.{PROMETHEUS.key}")
    assert site.cloud.control_network is not None
    gateway = str(site.cloud.control_network[1])
    hook: type[Hook] = type("LabHook", (Hook,), {"posts": []})
    with https_server(hook, tmp_path, address=gateway) as server:
        settings = {"webhook": {"url": f"https://{gateway}:{server.port}/"}, "ca_file": "webhook-ca.pem"}

        def send(content: dict[str, Any]) -> None:
            content["platform"]["services"][PROMETHEUS.key]["alertmanager"] = settings

        file = edit(context, tmp_path / "site", send)
        (file.parent / "webhook-ca.pem").write_text(server.ca)
        try:
            up(file)
            yield hook.posts
        finally:
            up(context.site_file)


def test_an_alert_and_its_end_arrive(
    posts: list[dict[str, Any]], context: SiteContext, site_host: Callable[[str], Host]
) -> None:
    name = hosts_with("registry", context.site, context.cloud_outputs)[0].name
    host = site_host(name)

    def arrived(status: str) -> bool:
        return any(
            alert["status"] == status
            and alert["labels"]["alertname"] == "UnitDown"
            and alert["labels"]["name"] == f"{UNIT}.service"
            and alert["annotations"]["runbook"] == "docs/troubleshooting.md#alert-unitdown"
            for post in posts
            for alert in post["alerts"]
        )

    host.check_output(f"systemctl stop {UNIT}")
    try:
        eventually(lambda: arrived("firing"), ALERT_SECONDS, "the webhook has the alert")
    finally:
        host.check_output(f"systemctl start {UNIT}")
    eventually(lambda: arrived("resolved"), ALERT_SECONDS, "the webhook has its end")
