"""Alerts reach people: the real Alertmanager takes the configuration, and sends alerts by e-mail and to a webhook."""

from __future__ import annotations

import json
import re
import shutil
import socketserver
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from strata.catalogue.service import Service
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError
from strata_bench.https_server import in_background
from strata_bench.services import free_port
from strata_bench.waiting import eventually, responds
from strata_services.prometheus_server import alertmanager
from strata_services.prometheus_server.alertmanager import SECRETS
from strata_services.prometheus_server.service import SERVICE

Run = Callable[..., subprocess.CompletedProcess[str]]
Objects = Callable[[Service[Any], Path], list[dict[str, Any]]]
SECONDS = 120
PROGRAM = "usr/bin/prometheus-alertmanager"
EMAIL = {"to": ["ops@example.org", "on-call@example.org"], "sender": "strata@example.org"}
LOGIN = {"smarthost": "mail.example.org:587", "username": "strata"}
WEBHOOK = {"url": "https://chat.example.org:8443/hooks/strata", "bearer_token": True}
PROVIDED = [{"name": secret.name, "source": "environment"} for secret in (alertmanager.PASSWORD, alertmanager.TOKEN)]


def provide(file: Path, secrets: list[dict[str, str]]) -> Path:
    """The site file with secrets of the operator."""
    content = yaml.safe_load(file.read_text())
    content["secrets"] = [*content.get("secrets", []), *secrets]
    file.write_text(yaml.safe_dump(content))
    return file


def of_kind(objects: list[dict[str, Any]], kind: str, name: str = "prometheus-server-alertmanager") -> dict[str, Any]:
    (item,) = (item for item in objects if item["kind"] == kind and item["metadata"]["name"] == name)
    return item


@pytest.fixture
def objects(
    lab_with: Callable[..., Path], objects_of: Objects, monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, Any]]:
    """Of a site with both receivers, each with a secret."""
    for secret in PROVIDED:
        monkeypatch.setenv(f"STRATA_SECRET_{secret['name'].upper()}", "not in the objects")
    settings = {"email": EMAIL | LOGIN, "webhook": WEBHOOK, "repeat_interval": 12}
    return objects_of(SERVICE, provide(lab_with(SERVICE, alertmanager=settings), PROVIDED))


def test_alertmanager_accepts_its_configuration(amtool: Run, objects: list[dict[str, Any]], tmp_path: Path) -> None:
    text = of_kind(objects, "ConfigMap")["data"]["alertmanager.yml"]
    file = tmp_path / "alertmanager.yml"
    file.write_text(text)
    done = amtool("check-config", file)
    assert done.returncode == 0, done.stdout + done.stderr
    (receiver,) = yaml.safe_load(text)["receivers"]
    (email,) = receiver["email_configs"]
    assert email["to"] == "ops@example.org, on-call@example.org"
    assert (email["require_tls"], email["auth_password_file"]) == (True, f"{SECRETS}/alertmanager_smtp_password")
    (webhook,) = receiver["webhook_configs"]
    credentials = {"credentials_file": f"{SECRETS}/alertmanager_webhook_token"}
    assert webhook["http_config"] == {"follow_redirects": False, "authorization": credentials}
    file.write_text(text.replace("send_resolved", "sent_resolved"))
    assert amtool("check-config", file).returncode != 0


def test_prometheus_sends_its_alerts_there(objects: list[dict[str, Any]]) -> None:
    """And nobody but Prometheus; what is sent leaves by the receivers' ports alone."""
    given = yaml.safe_load(of_kind(objects, "ConfigMap", "prometheus-server")["data"]["prometheus.yml"])
    targets = [{"static_configs": [{"targets": ["prometheus-server-alertmanager:9093"]}]}]
    assert given["alerting"]["alertmanagers"] == targets
    assert of_kind(objects, "Service")["spec"]["ports"][0]["port"] == 9093
    policy = of_kind(objects, "NetworkPolicy")["spec"]
    (source,) = policy["ingress"][0]["from"]
    labels = of_kind(objects, "StatefulSet", "prometheus-server")["spec"]["selector"]["matchLabels"]
    assert source == {"podSelector": {"matchLabels": labels}}
    assert [port["port"] for port in policy["egress"][1]["ports"]] == [587, 8443]
    own = of_kind(objects, "NetworkPolicy", "prometheus-server")["spec"]["egress"]
    assert {9093} in [{port["port"] for port in rule["ports"]} for rule in own if "ports" in rule]
    assert "not in the objects" not in json.dumps(objects)


def test_without_receivers_there_is_no_alertmanager(lab_with: Callable[..., Path], objects_of: Objects) -> None:
    objects = objects_of(SERVICE, lab_with(SERVICE))
    assert not [item for item in objects if "alertmanager" in item["metadata"]["name"]]
    given = yaml.safe_load(of_kind(objects, "ConfigMap", "prometheus-server")["data"]["prometheus.yml"])
    assert "alerting" not in given


@pytest.mark.parametrize(
    ("settings", "key", "message"),
    [
        ({}, "alertmanager.email", "sends alerts to no one: give email, webhook or both"),
        (
            {"webhook": WEBHOOK},
            "alertmanager",
            "needs the secret alertmanager_webhook_token, which the site file does not provide",
        ),
        (
            {"email": EMAIL | {"smarthost": "mail.example.org"}},
            "alertmanager.email.smarthost",
            "must be a host and a port",
        ),
        ({"webhook": {"url": "http://chat.example.org"}}, "alertmanager.webhook.url", "https"),
    ],
)
def test_errors_are_named(lab_with: Callable[..., Path], settings: object, key: str, message: str) -> None:
    with pytest.raises(SiteError) as caught:
        load_site(lab_with(SERVICE, alertmanager=settings))
    (problem,) = caught.value.problems
    assert problem.key == f"platform.services.prometheus_server.{key}"
    assert message in problem.why


class Mail(socketserver.StreamRequestHandler):
    """A mail server that takes every message."""

    messages: list[str]

    def handle(self) -> None:
        """One conversation."""
        self.wfile.write(b"220 mail\r\n")
        message: list[str] = []
        taking = False
        for raw in self.rfile:
            line = raw.decode().rstrip("\r\n")
            if taking and line == ".":
                self.messages.append("\n".join(message))
                taking = False
            elif taking:
                message.append(line)
                continue
            taking = taking or line == "DATA"
            self.wfile.write(b"354 go on\r\n" if taking else b"221 bye\r\n" if line == "QUIT" else b"250 OK\r\n")


class Hook(BaseHTTPRequestHandler):
    """A webhook."""

    posts: list[tuple[str, dict[str, Any]]]

    def do_POST(self) -> None:
        """Keeps what is posted, and who posts it."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.posts.append((self.headers.get("Authorization", ""), json.loads(body)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def as_in_the_image(binaries: Path, root: Path) -> Path:
    """A directory with what the image has: the program, the libraries that it calls, the templates of its messages."""
    listed = subprocess.run(["ldd", binaries / Path(PROGRAM).name], capture_output=True, text=True, check=True).stdout
    for library in re.findall(r"/\S+", listed):
        place = root / library.removeprefix("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)
    (root / PROGRAM).parent.mkdir(parents=True)
    shutil.copy(binaries / Path(PROGRAM).name, root / PROGRAM)
    templates = "share/prometheus/alertmanager"
    shutil.copytree(binaries.parent / templates, root / "usr" / templates)
    return root


def test_an_alert_and_its_end_reach_people(binaries: Path, objects: list[dict[str, Any]], tmp_path: Path) -> None:
    """The configuration of the chart, with the receivers' places and the time between messages changed."""
    mail: type[Mail] = type("OneMail", (Mail,), {"messages": []})
    hook: type[Hook] = type("OneHook", (Hook,), {"posts": []})
    given = yaml.safe_load(of_kind(objects, "ConfigMap")["data"]["alertmanager.yml"])
    with ExitStack() as stack:
        smtp = stack.enter_context(in_background(socketserver.ThreadingTCPServer(("127.0.0.1", 0), mail)))
        http = stack.enter_context(in_background(HTTPServer(("127.0.0.1", 0), hook)))
        given["route"] |= {"group_wait": "0s", "group_interval": "1s"}
        (receiver,) = given["receivers"]
        (email,) = receiver["email_configs"]
        email |= {"smarthost": f"127.0.0.1:{smtp.server_address[1]}", "require_tls": False}
        del email["auth_username"], email["auth_password_file"]  # a login needs TLS
        receiver["webhook_configs"][0]["url"] = f"http://127.0.0.1:{http.server_port}/"
        root = as_in_the_image(binaries, tmp_path / "root")
        (root / "alertmanager.yml").write_text(yaml.safe_dump(given))
        secrets = root / SECRETS.removeprefix("/")
        secrets.mkdir(parents=True)
        (secrets / "alertmanager_webhook_token").write_text("a-token")
        port = free_port()
        options = ("--config.file=/alertmanager.yml", "--storage.path=/state", "--cluster.listen-address=")
        command = ["chroot", str(root), f"/{PROGRAM}", *options, f"--web.listen-address=127.0.0.1:{port}"]
        with (tmp_path / "log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        stack.callback(process.wait)
        stack.callback(process.terminate)
        url = f"http://127.0.0.1:{port}"
        responds(f"{url}/-/ready", process, tmp_path / "log")
        begin = datetime.now(UTC)
        alert = {
            "labels": {"alertname": "HomesFull", "severity": "critical"},
            "annotations": {"summary": "homes are full", "runbook": "docs/troubleshooting.md#alert-homesfull"},
            "startsAt": begin.isoformat(),
        }
        assert requests.post(f"{url}/api/v2/alerts", json=[alert], timeout=30).status_code == 200
        eventually(lambda: bool(mail.messages and hook.posts), SECONDS, "the alert has arrived twice")
        ended = alert | {"endsAt": (begin + timedelta(seconds=1)).isoformat()}
        assert requests.post(f"{url}/api/v2/alerts", json=[ended], timeout=30).status_code == 200
        eventually(lambda: len(mail.messages) > 1 and len(hook.posts) > 1, SECONDS, "its end has arrived twice")
    assert [(key, post["status"]) for key, post in hook.posts[:2]] == [
        ("Bearer a-token", "firing"),
        ("Bearer a-token", "resolved"),
    ]
    assert hook.posts[0][1]["alerts"][0]["annotations"]["summary"] == "homes are full"
    assert "Subject: [FIRING:1] HomesFull" in mail.messages[0]
    assert "docs/troubleshooting.md#alert-homesfull" in mail.messages[0].replace("=\n", "")
    assert "Subject: [RESOLVED] HomesFull" in mail.messages[1]
