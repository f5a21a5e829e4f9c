"""Secrets that a site declares must be provided."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from strata.errors import UserError
from strata.site.secrets.provided import check_secrets
from strata.site_file.loader import load_site

DECLARED = """secrets:
  - {name: hub_token, source: environment, variable: STRATA_TEST_TOKEN}
  - {name: registry_password, source: file, path: PATH}
  - {name: kine_database_password, source: generated}
platform:
  tenants"""


@pytest.fixture
def site_with_secrets(site_file: Callable[..., Path], tmp_path: Path) -> Path:
    return site_file(("platform:\n  tenants", DECLARED.replace("PATH", str(tmp_path / "password"))))


def test_all_missing_secrets_are_named(site_with_secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STRATA_TEST_TOKEN", raising=False)
    with pytest.raises(UserError) as caught:
        check_secrets(load_site(site_with_secrets))
    assert "STRATA_TEST_TOKEN" in caught.value.message
    assert "registry_password" in caught.value.message
    assert "kine_database_password" not in caught.value.message


def test_provided_secrets_pass(site_with_secrets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_TEST_TOKEN", "token-value")
    (tmp_path / "password").write_text("password-value")
    (tmp_path / "password").chmod(0o600)
    check_secrets(load_site(site_with_secrets))


def test_a_file_that_others_read_is_refused_without_its_content(
    site_with_secrets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_TEST_TOKEN", "token-value")
    (tmp_path / "password").write_text("password-value")
    (tmp_path / "password").chmod(0o644)
    with pytest.raises(UserError) as caught:
        check_secrets(load_site(site_with_secrets))
    assert "chmod 600" in str(caught.value)
    assert "password-value" not in str(caught.value)
