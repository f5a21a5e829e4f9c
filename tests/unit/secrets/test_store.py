"""The encrypted secret store and the site's certificate authority."""

from __future__ import annotations

import argparse
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from cryptography import x509

from strata.errors import UserError
from strata.site.paths import REPOSITORY, SitePaths
from strata.site.secrets import SecretStore
from strata.site.secrets.store import new_secret


@dataclass
class Declaration:
    name: str
    source: str
    variable: str | None = None
    path: Path | None = None


@pytest.fixture
def store(state_directory: Path) -> SecretStore:
    return SecretStore.open("unit")


def test_generated_once_and_encrypted(store: SecretStore) -> None:
    value = store.get("database_password")
    assert len(value) >= 32
    assert SecretStore.open("unit").get("database_password") == value
    text = SitePaths("unit").secrets_file.read_text()
    assert text.startswith("$ANSIBLE_VAULT;")
    assert value not in text


def test_hosts_that_share_a_certificate_get_the_same(store: SecretStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ansible's forks ask for it at once: one that issued another overwrote what the first had installed."""
    other, change = SecretStore.open("unit"), store._change
    issued: list[object] = []

    @contextmanager
    def late(passphrase: str | None = None) -> Iterator[dict[str, Any]]:
        if not issued:  # after the first look and before the lock
            issued.append(other.certificate("postgresql", ["database-1"]))
        with change(passphrase) as content:
            yield content

    assert store.ca
    monkeypatch.setattr(store, "_change", late)
    assert store.certificate("postgresql", ["database-1"]) == issued[0]


def test_no_consumer_can_misread_a_generated_secret() -> None:
    """`grep VALUE` once took a password for an option; YAML, shells and URLs have traps of their own."""
    values = {new_secret() for _ in range(5000)}
    assert len(values) == 5000
    command = argparse.ArgumentParser()
    command.add_argument("value")
    for value in values:
        assert re.fullmatch("[A-Za-z][A-Za-z0-9]{43}", value)
        assert yaml.safe_load(value) == shlex.quote(value) == quote(value, safe="") == value
        assert command.parse_args([value]).value == value


def test_secrets_of_older_versions_stay_valid(store: SecretStore) -> None:
    store.get("old", lambda: "-begins_like-an-option")
    assert SecretStore.open("unit").get("old") == "-begins_like-an-option"


def test_files_are_private(store: SecretStore) -> None:
    store.get("one")
    assert store.ca
    for file in SitePaths("unit").root.rglob("*"):
        assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file


def test_ansible_vault_opens_it(store: SecretStore) -> None:
    value = store.get("one")
    paths = SitePaths("unit")
    program = Path(sys.executable).parent / "ansible-vault"
    command = [str(program), "view", "--vault-password-file", str(paths.passphrase_file), str(paths.secrets_file)]
    assert value in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_two_at_once_agree(store: SecretStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        values = list(pool.map(lambda _: SecretStore.open("unit").get("shared"), range(8)))
    assert set(values) == {store.get("shared")}


def test_readable_by_others_is_refused(store: SecretStore) -> None:
    store.get("one")
    SitePaths("unit").secrets_file.chmod(0o644)
    with pytest.raises(UserError, match="others than its owner") as error:
        SecretStore.open("unit").get("one")
    assert "chmod 600" in (error.value.fix or "")


def test_wrong_passphrase_is_reported(store: SecretStore) -> None:
    store.get("one")
    SitePaths("unit").passphrase_file.write_text("another\n")
    with pytest.raises(UserError, match="does not open with the passphrase"):
        SecretStore.open("unit").get("one")


def test_from_environment(store: SecretStore, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = SecretStore.open("unit", [Declaration("token", "environment", "MY_TOKEN")])
    with pytest.raises(UserError, match="MY_TOKEN is not set"):
        declared.get("token")
    monkeypatch.setenv("MY_TOKEN", "from outside")
    assert declared.get("token") == "from outside"
    assert "token" not in store.known()


@pytest.mark.usefixtures("store")
def test_from_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    declared = SecretStore.open("unit", [Declaration("token", "file", path=file)])
    with pytest.raises(UserError, match="there is no file"):
        declared.get("token")
    file.write_text("in a file\n")
    file.chmod(0o640)
    with pytest.raises(UserError, match="others than its owner"):
        declared.get("token")
    file.chmod(0o600)
    assert declared.get("token") == "in a file"


@pytest.mark.usefixtures("store")
def test_file_inside_the_repository_is_refused() -> None:
    declared = SecretStore.open("unit", [Declaration("token", "file", path=REPOSITORY / "README.md")])
    with pytest.raises(UserError, match="inside the repository"):
        declared.get("token")


def test_certificate_is_kept_until_its_names_change(store: SecretStore) -> None:
    first = store.certificate("web", ["web.example.test"], ["10.0.0.1"])
    assert store.certificate("web", ["web.example.test"], ["10.0.0.1"]) == first
    second = store.certificate("web", ["web.example.test", "www.example.test"], ["10.0.0.1"])
    assert second != first
    loaded = x509.load_pem_x509_certificate(second.certificate.encode())
    loaded.verify_directly_issued_by(x509.load_pem_x509_certificate(store.ca.encode()))
    names = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert set(names.get_values_for_type(x509.DNSName)) == {"web.example.test", "www.example.test"}
