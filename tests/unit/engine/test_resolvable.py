"""Hosts that a site file names and no name server knows."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from strata.engine.resolvable import check_names
from strata.site.context import SiteContext
from strata.site.paths import REPOSITORY
from strata.site_file.inventories import find_site
from strata.site_file.problems import SiteError

NAMES = {
    "issuer.example.org": None,
    "issuer.exmaple.org": socket.EAI_NONAME,
    "cut-off.example.org": socket.EAI_AGAIN,
}
"""Name to the error of its lookup."""


@pytest.fixture(autouse=True)
def name_servers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was looked up."""
    asked: list[str] = []

    def look_up(name: str, _port: None) -> list[object]:
        asked.append(name)
        code = NAMES[name]
        if code is not None:
            raise socket.gaierror(code, "not found")
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


def site(tmp_path: Path, url: str, name: str = "metal") -> SiteContext:
    text = find_site(name).read_text()
    file = tmp_path / "site.yaml"
    file.write_text(f"{text}  services: {{external_issuer: {{url: '{url}'}}}}\n")
    return SiteContext.load(file)


def test_a_name_that_no_name_server_knows_is_refused_at_its_key(tmp_path: Path) -> None:
    with pytest.raises(SiteError) as raised:
        check_names(site(tmp_path, "https://issuer.exmaple.org/realms/physics"))
    (problem,) = raised.value.problems
    assert problem.key == "platform.services.external_issuer.url"
    assert problem.line == len((tmp_path / "site.yaml").read_text().splitlines())
    assert "there is no host issuer.exmaple.org" in problem.why
    assert "/etc/hosts" in problem.fix


@pytest.mark.parametrize("host", ["issuer.example.org", "cut-off.example.org", "192.0.2.7", "login.metal.example.org"])
def test_what_may_exist_is_not_refused(host: str, tmp_path: Path, name_servers: list[str]) -> None:
    """A name server that does not respond, an address, and a name below the site's own domain."""
    check_names(site(tmp_path, f"https://{host}/"))
    assert name_servers == ([host] if host in NAMES else [])


def test_a_lab_has_names_of_its_own(name_servers: list[str]) -> None:
    check_names(SiteContext.load(REPOSITORY / "tests/corpus/complete/lab.yaml"))
    assert name_servers == []
