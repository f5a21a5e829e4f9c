"""Registries that nodes pull from: which a site needs, and what a node reports of them."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from strata.engine import node_registries
from strata.engine.node_registries import check_registries, registries
from strata.errors import UserError
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site.secrets import pki
from strata.site_file.inventories import find_site


class Registry(BaseHTTPRequestHandler):
    """Wants a token, as registries do."""

    def do_GET(self) -> None:
        self.send_response(401)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Address of a registry whose certificate this machine trusts."""
    authority, key = pki.create_authority("registries")
    issued = pki.issue(authority, key, "127.0.0.1", [], ["127.0.0.1"])
    for name, text in (("ca", issued.ca), ("pair", issued.certificate + issued.private_key)):
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca"))
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "pair")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def nautilus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteContext:
    """Its nodes are this machine."""
    monkeypatch.setenv("STRATA_STATE_DIR", str(tmp_path / "state"))

    def run_here(context: SiteContext, address: str, command: str, **_: Any) -> subprocess.CompletedProcess[str]:
        program = command.replace("python3", sys.executable, 1)
        return subprocess.run(["sh", "-c", program], env=os.environ, capture_output=True, text=True, check=True)

    monkeypatch.setattr(node_registries, "run_ssh", run_here)
    return SiteContext.load(find_site("nautilus"))


def test_what_a_site_pulls_from_others(nautilus: SiteContext) -> None:
    assert registries(nautilus) == {
        "nvcr.io": {"nvidia-device-plugin"},
        "registry.k8s.io": {"nvidia-device-plugin", "kueue", "Kubespray"},
        "quay.io": {"Kubespray"},
    }
    assert registries(SiteContext.load(find_site("metal"))) == {}


def test_a_registry_out_of_reach_is_named_with_the_node_and_what_needs_it(
    nautilus: SiteContext, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One node of each institution asks; a registry that wants a token responds."""
    monkeypatch.setattr(node_registries, "registries", lambda _: {registry: {"kueue"}, "127.0.0.1:9": {"Kubespray"}})
    with pytest.raises(UserError) as raised:
        check_registries(nautilus, Silent())
    for node in ("calit2-fiona8-1", "ucsc-fiona8-1", "uci-fiona8-1", "ucm-fiona8-1"):
        assert f"{node}: 127.0.0.1:9: [Errno 111] Connection refused" in raised.value.message
    assert "dtn" not in raised.value.message
    assert registry not in raised.value.message
    assert "the images of Kubespray and" in str(raised.value.fix)
    monkeypatch.setattr(node_registries, "registries", lambda _: {registry: {"kueue"}})
    assert check_registries(nautilus, Silent()) == "1 registries respond to 4 nodes"


def test_a_node_that_does_not_respond_is_not_taken_for_one_that_reaches_all(
    nautilus: SiteContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = subprocess.CompletedProcess(["ssh"], 255, "", "ssh: connect to host 192.0.2.21 port 22: No route to host")
    monkeypatch.setattr(node_registries, "run_ssh", lambda *_, **__: silent)
    with pytest.raises(UserError, match=r"asked for the registries: calit2-fiona8-1: ssh: .* No route to host"):
        check_registries(nautilus, Silent())
