"""The role's program for restores, without pgBackRest and PostgreSQL."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from strata.roles import DIRECTORY


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(DIRECTORY / "pgbackrest" / "files")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return importlib.import_module("strata_pgbackrest")


@pytest.fixture
def archive(program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server whose directory has a file, and a repository with a backup."""
    data = tmp_path / "patroni"
    data.mkdir()
    (data / "former").touch()
    configuration = {"host": "a", "data": data, "binaries": "/", "socket": "/", "port": 5432, "unit": "patroni"}
    prepared = program.Archive({**configuration, "patroni": True, "metrics": tmp_path / "metrics"})
    monkeypatch.setattr(program, "information", dict)
    backup = type("Backup", (), {"label": "20260101-000000F", "size": 1})
    monkeypatch.setattr(program, "choose", lambda *_: backup)
    monkeypatch.setattr(prepared, "_stop", lambda: None)
    monkeypatch.setattr(prepared, "_fill", lambda *_: data.mkdir())
    return prepared


@pytest.mark.parametrize("step", ["_fill", "_prepare_for_patroni"])
def test_a_failure_starts_the_server_as_it_was(
    step: str, program: ModuleType, archive: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[bool] = []

    def fail(*_: object) -> None:
        raise program.PgBackRestError("etcd does not respond")

    monkeypatch.setattr(archive, "_start", lambda: started.append((tmp_path / "patroni" / "former").exists()))
    monkeypatch.setattr(archive, step, fail)
    with pytest.raises(program.PgBackRestError, match="etcd does not respond"):
        archive.restore("latest", None, overwrite=True, dry_run=False)
    assert started == [True]
    assert [path.name for path in tmp_path.iterdir()] == ["patroni"]


def test_patronis_users_get_their_present_passwords(program: ModuleType) -> None:
    names = {"superuser": "postgres", "replication": "replicator", "rewind": "rewind"}
    users = {key: {"username": name, "password": f"it's {key}"} for key, name in names.items()}
    statements = program._set_users(yaml.safe_dump({"postgresql": {"authentication": users}})).splitlines()
    assert "alter role replicator login replication password 'it''s replication';" in statements
    assert "alter role postgres login superuser password 'it''s superuser';" in statements
    assert statements.index("set log_min_error_statement = 'panic';") < 4
