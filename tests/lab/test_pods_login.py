"""The login in front of a pod from outside: a real browser at the issuer, a program with a token, who is refused."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import requests
from selenium.webdriver.common.keys import Keys

from strata.access.https import site_session
from strata.site.context import SiteContext
from strata_bench.browser import Browser
from strata_bench.waiting import eventually

from .site_browser import site_browser
from .test_pods import START_SECONDS, Member, ada, member, new_name

pytestmark = pytest.mark.nightly
__all__ = ["ada", "member"]
"""Fixtures."""
SECONDS = 120.0
"""The longest wait for one page on a loaded machine."""
SERVER = r"""
import html, json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Page(BaseHTTPRequestHandler):
    def do_GET(self):
        shown = html.escape(json.dumps({key.lower(): value for key, value in self.headers.items()}))
        body = f"<p id=headers>{shown}</p>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

ThreadingHTTPServer(("", 8000), Page).serve_forever()
"""
START = f"""
login = {{"tapis_auth": True, "tapis_auth_response_headers": {{"X-User": "<<tapisusername>>"}}}}
networking = {{"default": {{"protocol": "http", "port": 8000, **login}}}}
resources = {{"cpu_request": 250, "cpu_limit": 1000, "mem_request": 256, "mem_limit": 256}}
command = ["python3", "-c", {SERVER!r}]
t.pods.create_pod(pod_id=web, image=image, resources=resources, networking=networking, command=command)
print(json.dumps({{"url": wait(web, "AVAILABLE").networking.default.url}}))
"""
TOKEN = """
import re, requests
token = t.access_token.access_token
answer = requests.get(f"https://{os.environ['NAME']}/", headers={"X-Tapis-Token": token}, verify=ca, timeout=30)
user = re.search(r"x-user&quot;: &quot;([^&]*)", answer.text)
print(json.dumps({"status": answer.status_code, "user": user and user[1], "leaked": token in answer.text}))
"""


def log_in(window: Browser, url: str, who: Member) -> None:
    """Opens a page and logs in at the issuer."""
    window.visit(url)
    window.find("#username", SECONDS).send_keys(who.name)
    window.find("#password", SECONDS).send_keys(who.password, Keys.ENTER)


def test_a_browser_logs_in_in_front_of_a_pod_and_strangers_do_not_come_in(
    context: SiteContext, ada: Member, member: Callable[[str], Member]
) -> None:
    stranger = member(context.site.platform.tenants[1].name)
    web = new_name("login")
    name = str(ada.run(START, web, WEB=web)["url"])
    page = f"https://{name}/plots?size=1"
    with site_session(context) as http:

        def answered() -> requests.Response:
            return http.get(page, headers={"X-User": "admin"}, allow_redirects=False, timeout=30)

        eventually(lambda: answered().status_code == 401, START_SECONDS, "the page asks for a login")
    with site_browser(context, name) as window:
        log_in(window, page, ada)
        shown = json.loads(window.find("#headers", SECONDS).text)
        assert window.driver.current_url == page
        assert shown["x-user"] == ada.name
        assert "cookie" not in shown, "the session stays with the ingress controller"
    with site_browser(context, name) as window:
        log_in(window, page, stranger)
        assert "is not among" in window.find("h1", SECONDS).text

    assert ada.run(TOKEN, web, NAME=name) == {"status": 200, "user": ada.name, "leaked": False}
    assert stranger.run(TOKEN, web, NAME=name) == {"status": 403, "user": None, "leaked": False}
