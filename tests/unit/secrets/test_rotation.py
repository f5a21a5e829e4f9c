"""Other values for secrets, another life for certificates."""

from __future__ import annotations

import datetime
import itertools
import json
import subprocess
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

from strata.catalogue.needs import Secret
from strata.catalogue.site_services import needed
from strata.engine import rotation
from strata.engine.keys import ensure_ssh_key
from strata.engine.run_record import record_run
from strata.engine.runner import RunReport, StepReport
from strata.errors import UserError
from strata.layers import Layer
from strata.models.secret import Secret as DeclaredSecret
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.site.paths import SitePaths
from strata.site.secrets import SecretStore, pki


@pytest.fixture
def context(context: SiteContext) -> SiteContext:
    """The lab with some secrets."""
    ensure_ssh_key(context.paths)
    context.secrets.get("ml_hub_database_password")
    for _, need in needed(context.site, Secret):
        context.secrets.get(need.name, need.make)
    return context


def test_a_secret_gets_another_value(context: SiteContext) -> None:
    before = context.secrets.get("ml_hub_database_password")
    (entry,) = rotation.rotate(context, ["ml_hub_database_password"], Silent())
    assert entry.applied == "by the next up"
    after = SecretStore.open("lab").get("ml_hub_database_password")
    assert after != before
    assert len(after) >= 32


def test_a_service_shows_what_the_rotation_of_its_secret_means(context: SiteContext) -> None:
    secrets = [need for _, need in needed(context.site, Secret) if need.keep_previous]
    made = [secret.name for secret in secrets if secret.make is not None]
    assert made
    for secret in secrets:
        before = context.secrets.get(secret.name)
        rotation.rotate(context, [secret.name], Silent())
        after = context.secrets.get(secret.name)
        # made as the service states
        assert ("PRIVATE KEY" in after) == (secret.name in made)
        assert after != before
        assert context.secrets.peek(secret.previous) == before
        assert secret.previous not in {entry.name for entry in rotation.list_secrets(context)}


def test_a_kept_secret_is_not_rotated_twice_before_an_up(context: SiteContext) -> None:
    """Two values would be lost to what still has the first."""
    (secret, *_) = [need for _, need in needed(context.site, Secret) if need.keep_previous]
    in_use = context.secrets.get(secret.name)
    rotation.rotate(context, [secret.name], Silent())
    for names in ([secret.name], ["ml_hub_database_password", secret.name]):
        other = context.secrets.get("ml_hub_database_password")
        with pytest.raises(UserError, match="the site does not have the new value yet"):
            rotation.rotate(context, names, Silent())
        assert context.secrets.peek(secret.previous) == in_use
        assert context.secrets.get("ml_hub_database_password") == other, "nothing was rotated"
    record_run(context.paths, RunReport([StepReport("platform", Layer.PLATFORM, "done", 1.0)]))
    now = context.secrets.get(secret.name)
    rotation.rotate(context, [secret.name], Silent())
    assert context.secrets.peek(secret.previous) == now


def test_no_list_has_a_value(context: SiteContext) -> None:
    listed = str(rotation.list_secrets(context)) + str(context.secrets.names())
    assert "ml_hub_database_password" in listed
    for value in context.secrets.known().values():
        assert value not in listed


def test_an_unknown_name_is_reported_before_anything_is_rotated(context: SiteContext) -> None:
    before = dict(context.secrets.known())
    with pytest.raises(UserError, match="has no secret nothing"):
        rotation.rotate(context, ["ml_hub_database_password", "nothing"], Silent())
    assert context.secrets.known() == before


def test_what_the_operator_provides_is_the_operators(context: SiteContext) -> None:
    provided = DeclaredSecret(name="ml_hub_database_password", source="environment")
    site = context.site.model_copy(update={"secrets": (provided,)})
    with pytest.raises(UserError, match="Strata does not make it"):
        rotation.rotate(SiteContext(site, context.site_file, context.paths), [provided.name], Silent())


def test_another_passphrase_opens_the_same_secrets(context: SiteContext, monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[str] = []
    monkeypatch.setattr(
        "strata.engine.rotation.change_passphrase",
        lambda program, _site, _paths, _progress, following, **_: changed.append(f"{program} {following.name}"),
    )
    known = dict(context.secrets.known())
    before = context.paths.passphrase_file.read_text()
    rotation.rotate(context, [rotation.PASSPHRASE], Silent())
    assert changed == ["cloud passphrase.next", "platform passphrase.next"]
    assert context.paths.passphrase_file.read_text() != before
    assert not context.paths.next_passphrase_file.exists()
    assert SecretStore.open("lab").known() == known
    assert context.paths.passphrase_file.stat().st_mode & 0o077 == 0


def test_a_rotation_of_the_passphrase_that_was_killed_goes_on(
    context: SiteContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata.engine.rotation.change_passphrase", lambda *_, **__: None)
    known = dict(context.secrets.known())
    old = context.paths.passphrase_file.read_text()
    rotation.rotate(context, [rotation.PASSPHRASE], Silent())
    # as if it had been killed after the store was written, and before the passphrase was
    context.paths.next_passphrase_file.write_text(context.paths.passphrase_file.read_text())
    context.paths.passphrase_file.write_text(old)
    assert SecretStore.open("lab").known() == known
    rotation.rotate(context, [rotation.PASSPHRASE], Silent())
    assert SecretStore.open("lab").known() == known
    assert not context.paths.next_passphrase_file.exists()


def test_the_shell_of_the_ssh_key_adds_once_and_removes(tmp_path: Path) -> None:
    trusted = tmp_path / "authorized_keys"
    trusted.write_text("ssh-ed25519 AAAAold site\nssh-ed25519 AAAAother person\n")

    def run(command: str, key: str) -> None:
        local = command.replace("~/.ssh", str(tmp_path))
        subprocess.run(["sh", "-c", local], input=key, text=True, check=True)

    for _ in range(2):
        run(rotation.ADD_KEY, "ssh-ed25519 AAAAnew site\n")
    run(rotation.REMOVE_KEY, "ssh-ed25519 AAAAold site\n")
    assert trusted.read_text() == "ssh-ed25519 AAAAother person\nssh-ed25519 AAAAnew site\n"
    assert trusted.stat().st_mode & 0o077 == 0
    assert [file.name for file in tmp_path.iterdir()] == ["authorized_keys"]


def test_a_site_without_hosts_gets_another_ssh_key(context: SiteContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "all_addresses", lambda _: {})
    public = context.paths.ssh_key.with_suffix(".pub")
    before = public.read_text()
    rotation.rotate(context, [rotation.SSH_KEY], Silent())
    assert public.read_text() != before
    load_ssh_public_key(public.read_bytes())
    assert sorted(file.name for file in context.paths.root.glob("ssh_key*")) == ["ssh_key", "ssh_key.pub"]


def test_a_host_that_does_not_respond_keeps_the_old_ssh_key(
    context: SiteContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotation, "all_addresses", lambda _: {"services-1": "127.0.0.1:not-an-address"})
    before = context.paths.ssh_key.read_text()
    with pytest.raises(UserError, match=r"services-1 .* does not accept the new SSH key"):
        rotation.rotate(context, [rotation.SSH_KEY], Silent())
    assert context.paths.ssh_key.read_text() == before


def test_a_certificate_is_renewed_when_asked(context: SiteContext) -> None:
    first = context.secrets.certificate("registry", ["registry.lab"])
    assert context.secrets.certificate("registry", ["registry.lab"]) == first
    assert rotation.renew(context, ["registry"], Silent()) == ["registry"]
    second = context.secrets.certificate("registry", ["registry.lab"])
    assert second.certificate != first.certificate
    assert second.ca == first.ca
    with pytest.raises(UserError, match="has no certificate nothing"):
        rotation.renew(context, ["nothing"], Silent())


def trusts(ca: str, certificate: str) -> bool:
    """Whether one of the authorities signed it."""
    signed = x509.load_pem_x509_certificate(certificate.encode())
    for authority in x509.load_pem_x509_certificates(ca.encode()):
        try:
            signed.verify_directly_issued_by(authority)
        except InvalidSignature:
            continue
        return True
    return False


def test_an_authority_is_replaced_without_a_moment_of_mistrust(
    context: SiteContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = context.secrets
    old, trusted = store.ca, [store.ca]
    shown = [store.certificate("registry", ["registry.lab"]).certificate]
    clock = itertools.count(time.time() + 10, 10)
    monkeypatch.setattr("strata.site.secrets.store.time.time", lambda: next(clock))
    for _ in range(3):
        assert rotation.renew(context, ["authority"], Silent()) == ["authority"]
        if store.authority_replacement:
            with pytest.raises(UserError, match="not every host knows yet"):
                rotation.renew(context, ["authority"], Silent())
        trusted.append(store.ca)
        assert context.paths.ca_file.read_text() == store.ca
        shown.append(store.certificate("registry", ["registry.lab"]).certificate)
        ended = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(next(clock)))
        steps = [asdict(StepReport(layer.value, layer, "done", 1.0)) for layer in Layer]
        (context.paths.root / "runs.jsonl").write_text(json.dumps({"ended": ended, "steps": steps}) + "\n")
    # while an `up` brings a step, some have the trust of before and some show the certificate of after, and reversed
    for step in range(3):
        assert trusts(trusted[step], shown[step + 1])
        assert trusts(trusted[step + 1], shown[step])
    assert [len(x509.load_pem_x509_certificates(text.encode())) for text in trusted] == [1, 2, 2, 1]
    assert shown[1] == shown[0]
    assert shown[2] != shown[1]
    assert shown[3] == shown[2]
    assert old not in store.ca
    assert store.authority_replacement is None


@pytest.mark.parametrize(("days_gone", "renewed"), [(200, False), (280, True)])
def test_a_certificate_is_renewed_in_the_last_third_of_its_life(
    days_gone: int, renewed: bool, context: SiteContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = context.secrets.certificate("registry", ["registry.lab"])
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days_gone)

    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Later:
            return cls.fromtimestamp(later.timestamp(), tz)

    monkeypatch.setattr(datetime, "datetime", Later)
    (registry,) = [entry for entry in rotation.list_certificates(context) if entry.name == "registry"]
    assert registry.due is renewed
    assert abs(registry.days - (pki.CERTIFICATE_DAYS - days_gone)) <= 1
    assert (context.secrets.certificate("registry", ["registry.lab"]) != first) is renewed


def test_files_of_the_state_are_private(context: SiteContext) -> None:
    for file in SitePaths("lab").root.rglob("*"):
        if file.is_file():
            assert file.stat().st_mode & 0o077 == 0, file
