"""Every secret rotated, every certificate renewed, the authority replaced: the site works with the new ones only."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass

import pytest
import requests

from strata.catalogue.service import FINGERPRINT_KEY
from strata.engine.rotation import AUTHORITY, PASSPHRASE, SSH_KEY
from strata.inventory.port_numbers import REGISTRY
from strata.inventory.topology import database_secret
from strata.models.site import Site
from strata.site.context import SiteContext
from strata.site.host_list import address_of
from strata_services.keycloak.service import ADMIN_SECRET, SIGNING_KEY

from .authentication import attempts, served_certificates
from .commands import strata, strata_json
from .healing import up_again
from .lab_site import require_lab

pytestmark = pytest.mark.nightly

NOT_ATTEMPTED = {
    # nobody presents them, and tokens that the previous one signed stay good
    *(SIGNING_KEY.name, SIGNING_KEY.previous),
    # accepted inside the cluster only; the contract test of the realm authenticates with it
    *(ADMIN_SECRET.name, ADMIN_SECRET.previous),
    database_secret("change_test"),  # of a database that another test has had removed
    # nobody presents them: they sign cookies of the hub and of pods' names, and encrypt tokens in the hub's database
    *("jupyterhub_cookie_secret", "jupyterhub_encryption_key", "pods_session_key"),
}


@dataclass(frozen=True)
class Turned:
    """A site before and after.

    Args:
        before, after: its secrets by name, SSH key and passphrase among them.
        certificates_before, certificates_after: in PEM, by name.
        served_before, served_after: serial numbers of the certificates that its servers show, by server.
    """

    before: dict[str, str]
    after: dict[str, str]
    certificates_before: dict[str, str]
    certificates_after: dict[str, str]
    served_before: dict[str, int]
    served_after: dict[str, int]


def values(context: SiteContext) -> dict[str, str]:
    """The generated secrets by name, as `strata secrets list` has them."""
    lasting = {FINGERPRINT_KEY, *context.provider.lasting_secrets}
    kept = {name: context.secrets.get(name) for name in context.secrets.names() if name not in lasting}
    files = {SSH_KEY: context.paths.ssh_key, PASSPHRASE: context.paths.passphrase_file}
    return kept | {name: file.read_text() for name, file in files.items()}


@pytest.fixture(scope="module")
def turned(context: SiteContext, site: Site) -> Turned:
    """The site after rotating and renewing all, and `up`."""
    require_lab(context)
    before, certificates = values(context), dict(context.secrets.certificates())
    served = served_certificates(context)
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
        served,
        served_certificates(fresh),
    )


def test_every_secret_is_another(turned: Turned) -> None:
    same = {name for name, value in turned.before.items() if turned.after.get(name) == value}
    assert not same
    for kept in (SIGNING_KEY, ADMIN_SECRET):
        assert turned.after[kept.previous] == turned.before[kept.name]


def test_the_old_secrets_open_nothing(turned: Turned, context: SiteContext, http: requests.Session) -> None:
    """Each place that asks for a secret accepts the new value and refuses the old one."""
    by_secret = attempts(context, http)
    assert set(turned.before) - set(by_secret) <= NOT_ATTEMPTED
    accepted = {
        (secret, place): (accepts(turned.after[secret]), accepts(turned.before[secret]))
        for secret, places in by_secret.items()
        for place, accepts in places.items()
    }
    assert {place: answers for place, answers in accepted.items() if answers != (True, False)} == {}


def test_every_certificate_is_another_but_the_authority(turned: Turned) -> None:
    same = {name for name, text in turned.certificates_before.items() if turned.certificates_after.get(name) == text}
    assert same == {AUTHORITY}


def test_every_server_shows_another_certificate(turned: Turned) -> None:
    same = {server for server, serial in turned.served_before.items() if turned.served_after[server] == serial}
    assert not same


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
    # who asks too early is reported so
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
    """Whether `strata verify` does; fails with what it reported."""
    done = strata("verify", context.site_file, "--json", seconds=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return True


def answers_to(context: SiteContext, authorities: str) -> bool:
    """Whether the load balancer's and the registry's certificates are good for a client with these authorities."""
    servers = (
        ("load_balancer", f"ml-hub.{context.site.domain}", 443),
        ("registry", f"registry.{context.site.domain}", REGISTRY),
    )
    for role, name, port in servers:
        trusting = ssl.create_default_context(cadata=authorities)
        address = address_of(role, context.site, context.cloud_outputs)
        with socket.create_connection((address, port), timeout=10) as plain:
            try:
                trusting.wrap_socket(plain, server_hostname=name).close()
            except ssl.SSLCertVerificationError:
                return False
    return True
