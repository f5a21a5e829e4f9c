"""An alert of the running site reaches an operator: from the fault on a host to the webhook, and its end as well."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from strata.models.site import Site
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with
from strata.site.outputs import ImageOutputs
from strata.site.secrets import pki
from strata_bench.waiting import eventually
from strata_services.prometheus_server.service import SERVICE as PROMETHEUS

from .commands import up
from .editing import edit
from .lab_site import require_lab

if TYPE_CHECKING:
    from testinfra.host import Host

pytestmark = pytest.mark.nightly

UNIT = "docker-registry-push"
PORT = 8443
ALERT_SECONDS = 900
"""Scrape, the rule's duration, the group's wait."""
HOOK = f"""
import http.server, ssl
class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        print(self.rfile.read(int(self.headers["Content-Length"])).decode().strip(), flush=True)
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain("/tls/tls.pem")
server = http.server.ThreadingHTTPServer(("", {PORT}), Hook)
server.socket = tls.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""
Kubectl = Callable[..., str]


def webhook(namespace: str, image: str, certificate: str) -> dict[str, Any]:
    """A pod that prints what is posted to https://webhook.NAMESPACE.svc."""
    labels = {"app": "webhook"}
    container = {
        "name": "webhook",
        "image": image,
        "command": ["python3", "-c", HOOK],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "volumeMounts": [{"name": "tls", "mountPath": "/tls"}],
    }
    volume = {"name": "tls", "secret": {"secretName": "tls"}}
    objects = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tls"}, "stringData": {"tls.pem": certificate}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "webhook"},
            "spec": {"selector": labels, "ports": [{"port": PORT}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "webhook", "labels": labels},
            "spec": {"containers": [container], "volumes": [volume], "terminationGracePeriodSeconds": 0},
        },
    ]
    for item in objects:
        item["metadata"]["namespace"] = namespace  # type: ignore[index]
    return {"apiVersion": "v1", "kind": "List", "items": objects}


@pytest.fixture
def posts(
    context: SiteContext, site: Site, kubectl: Kubectl, images: ImageOutputs, tmp_path: Path
) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """What the site's Alertmanager has posted; the site is as its file states afterwards.

    Pods do not reach the deployment host, which is the gateway of the hosts' network, so a pod receives.
    """
    require_lab(context)
    if PROMETHEUS.of(site) is None:
        pytest.skip(f"site {site.name} has no platform.services.{PROMETHEUS.key}")
    namespace = f"webhook-{secrets.token_hex(3)}"
    name = f"webhook.{namespace}.svc"
    ca, key = pki.create_authority("webhook")
    issued = pki.issue(ca, key, "webhook", [name], [])
    reference = images.images["pod-base"]
    manifest = webhook(namespace, f"{reference.repository}@{reference.digest}", issued.certificate + issued.private_key)

    def send(content: dict[str, Any]) -> None:
        settings = {"webhook": {"url": f"https://{name}:{PORT}/"}, "ca_file": "webhook-ca.pem"}
        content["platform"]["services"][PROMETHEUS.key]["alertmanager"] = settings

    def printed() -> list[dict[str, Any]]:
        lines = kubectl("logs", "--namespace", namespace, "webhook").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    file = edit(context, tmp_path / "site", send)
    (file.parent / "webhook-ca.pem").write_text(ca)
    kubectl("create", "namespace", namespace)
    try:
        kubectl("apply", "--filename=-", input=json.dumps(manifest))
        kubectl("wait", "--namespace", namespace, "pod/webhook", "--for=condition=Ready", "--timeout=100s")
        up(file)
        yield printed
    finally:
        kubectl("delete", "namespace", namespace, "--wait=false")
        up(context.site_file)


def test_an_alert_and_its_end_arrive(
    posts: Callable[[], list[dict[str, Any]]], context: SiteContext, site_host: Callable[[str], Host]
) -> None:
    name = hosts_with("registry", context.site, context.cloud_outputs)[0].name
    host = site_host(name)

    def arrived(status: str) -> bool:
        return any(
            alert["status"] == status
            and alert["labels"]["alertname"] == "UnitDown"
            and alert["labels"]["name"] == f"{UNIT}.service"
            and alert["annotations"]["runbook"] == "docs/troubleshooting.md#alert-unitdown"
            for post in posts()
            for alert in post["alerts"]
        )

    host.check_output(f"systemctl stop {UNIT}")
    try:
        eventually(lambda: arrived("firing"), ALERT_SECONDS, "the webhook has the alert", pause=5)
    finally:
        host.check_output(f"systemctl start {UNIT}")
    eventually(lambda: arrived("resolved"), ALERT_SECONDS, "the webhook has its end", pause=5)
