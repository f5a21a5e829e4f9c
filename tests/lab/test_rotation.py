"""Every secret rotated, every certificate renewed, the authority replaced: the site works with the new ones only."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import requests

from strata.engine.context import SiteContext
from strata.engine.rotation import AUTHORITY, KUBERNETES
from strata.inventory.ports import REGISTRY
from strata.inventory.topology import address_of
from strata.models import Site
from strata.platform.token_issuer import PREVIOUS_KEY, SIGNING_KEY

from .commands import strata, strata_json
from .healing import up_again

if TYPE_CHECKING:
    from testinfra.host import Host

pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Turned:
    """A site before and after.

    Args:
        before, after: its secrets by name.
        certificates_before, certificates_after: in PEM, by name.
        ssh_key_before: the private key's text.
        passphrase_before: of store and state.
        api_server_before, api_server_after: fingerprint of its certificate.
    """

    before: dict[str, str]
    after: dict[str, str]
    certificates_before: dict[str, str]
    certificates_after: dict[str, str]
    ssh_key_before: str
    passphrase_before: str
    api_server_before: str
    api_server_after: str


def values(context: SiteContext) -> dict[str, str]:
    """The generated secrets by name."""
    return {name: context.secrets.get(name) for name in context.secrets.names()}


def api_server(site_host: Callable[[str], Host], name: str) -> str:
    """Fingerprint of the certificate that the API server shows."""
    command = "openssl x509 -noout -fingerprint -sha256 -in /etc/kubernetes/pki/apiserver.crt"
    return str(site_host(name).check_output(command))


@pytest.fixture(scope="module")
def turned(context: SiteContext, site: Site, site_host: Callable[[str], Host]) -> Turned:
    """The site after rotating and renewing all, and `up`."""
    if site.cloud is None or site.cloud.deployment != "lab":
        pytest.skip(f"site {site.name} is no lab")
    control_plane = next(i.name for i in site.cloud.instances if "kube_control_plane" in i.roles)
    before, certificates = values(context), dict(context.secrets.certificates())
    key, passphrase = context.paths.ssh_key.read_text(), context.paths.passphrase_file.read_text()
    api_server_before = api_server(site_host, control_plane)
    try:
        for command in (("secrets", "rotate"), ("certificates", "renew")):
            done = strata(*command, context.site_file, "all", seconds=300)
            assert done.returncode == 0, done.stderr
    finally:
        up_again(context)
    fresh = SiteContext.load(context.site_file)
    return Turned(
        before,
        values(fresh),
        certificates,
        dict(fresh.secrets.certificates()),
        key,
        passphrase,
        api_server_before,
        api_server(site_host, control_plane),
    )


def test_every_secret_is_another(turned: Turned, context: SiteContext) -> None:
    same = {name for name, value in turned.before.items() if turned.after.get(name) == value}
    assert not same
    assert turned.after[PREVIOUS_KEY] == turned.before[SIGNING_KEY]
    assert context.paths.ssh_key.read_text() != turned.ssh_key_before
    assert context.paths.passphrase_file.read_text() != turned.passphrase_before


def test_every_certificate_is_another_but_the_authority(turned: Turned) -> None:
    same = {name for name, text in turned.certificates_before.items() if turned.certificates_after.get(name) == text}
    assert same == {AUTHORITY}
    assert KUBERNETES not in turned.certificates_before
    assert turned.api_server_after != turned.api_server_before


def test_the_site_works_with_them(turned: Turned, context: SiteContext) -> None:
    """Every check from outside passes, nothing has drifted, and there is nothing left for `up` to do."""
    assert turned
    assert passes_every_check(context)
    status, answer, error = strata_json(context, "status")
    assert status == 0, error or answer["drift"]
    assert up_again(context)["changed"] == 0


def test_the_authority_is_replaced_in_three_steps(context: SiteContext, http: requests.Session) -> None:
    """After each step the site answers to who trusts what was trusted before it; at the end the old one is gone."""
    while context.secrets.authority_replacement is not None:
        next_step(context, http)  # somebody began
    old = context.secrets.ca
    while not next_step(context, http):
        assert passes_every_check(context)
    assert old not in context.secrets.ca
    assert not answers_to(context, old)
    assert passes_every_check(context)


def next_step(context: SiteContext, http: requests.Session) -> bool:
    """Takes one step of the authority's replacement to the hosts; whether it was the last."""
    replace = ("certificates", "renew", context.site_file, AUTHORITY)
    trusted = context.paths.ca_file.read_text()
    done = strata(*replace, seconds=60)
    assert done.returncode == 0, done.stderr
    # who asks too early is told so
    if last := context.secrets.authority_replacement is None:
        assert "that was the last of three" in done.stderr
    else:
        again = strata(*replace, seconds=60)
        assert again.returncode == 2
        assert "not every host knows yet" in again.stderr
    up_again(context)
    answer = http.get(f"https://ml-hub.{context.site.domain}/readyz", timeout=10)
    assert answer.status_code == 200
    assert answers_to(context, trusted), "who trusts what was trusted before this step is answered"
    return last


def passes_every_check(context: SiteContext) -> bool:
    """Whether `strata verify` does; fails with what it said."""
    done = strata("verify", context.site_file, "--json", seconds=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return True


def answers_to(context: SiteContext, authorities: str) -> bool:
    """Whether the load balancer's and the registry's certificates are good for a client with these authorities."""
    doors = (
        ("load_balancer", f"ml-hub.{context.site.domain}", 443),
        ("registry", f"registry.{context.site.domain}", REGISTRY),
    )
    for role, name, port in doors:
        trusting = ssl.create_default_context(cadata=authorities)
        address = address_of(role, context.site, context.cloud_outputs)
        with socket.create_connection((address, port), timeout=10) as plain:
            try:
                trusting.wrap_socket(plain, server_hostname=name).close()
            except ssl.SSLCertVerificationError:
                return False
    return True
