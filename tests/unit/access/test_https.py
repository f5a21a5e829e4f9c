"""Redirects between a site's services, as a login has them."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from strata.access import https
from strata.site.context import SiteContext
from strata.site_file.inventories import find_site
from strata_bench.https_server import https_server


@pytest.fixture
def context(
    state_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[SiteContext, int]]:
    """The lab, and the port of a server for all its names: `hub` redirects to `login`, which shows host and cookie."""
    loaded = SiteContext.load(find_site("lab"))
    domain = loaded.site.domain

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host = str(self.headers["Host"])
            if host.startswith("hub."):
                self.send_response(302)
                self.send_header("Location", f"https://login.{domain}:{self.connection.getsockname()[1]}/")
                data = b""
            else:
                self.send_response(200)
                self.send_header("Set-Cookie", f"session={host.partition('.')[0]}; Path=/; Secure")
                data = f"{host} {self.headers['Cookie']}".encode()
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: object) -> None:
            """Logs nothing."""

    monkeypatch.setattr(https, "load_balancer_address", lambda _: "127.0.0.1")
    monkeypatch.setattr(https, "trusted_authorities", lambda _: str(tmp_path / "ca.crt"))
    with https_server(Handler, tmp_path, [f"*.{domain}"]) as server:
        (tmp_path / "ca.crt").write_text(server.ca)
        yield loaded, server.port


def test_a_redirect_leads_to_the_other_name_with_its_cookies(context: tuple[SiteContext, int]) -> None:
    site, port = context
    domain = site.site.domain
    with https.site_session(site) as session:
        assert session.get(f"https://login.{domain}:{port}/").text == f"login.{domain} None"
        answer = session.get(f"https://hub.{domain}:{port}/")
        assert [redirect.status_code for redirect in answer.history] == [302]
        assert answer.text == f"login.{domain} session=login"
