"""Secrets in data classes: pytest prints the arguments of what fails, and verification is pytest."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from strata.site.paths import REPOSITORY

SECRET = {"token", "password", "secret", "private_key", "secret_key", "access_token", "client_secret"}
URLS = {"Endpoints.token"}
"""Named like secrets, and public."""
TEXT = {"str", "bytes", "str | None"}
MODULES = sorted(
    file
    for folder in ("src", "services", "lab", "bench", "tests")
    for file in (REPOSITORY / folder).rglob("*.py")
    if ".venv" not in file.parts
)


def printed(file: Path) -> list[str]:
    """Fields of data classes that are named like secrets and whose values `repr()` contains."""
    fields = []
    text = file.read_text()
    if "dataclass" not in text:
        return []
    for kind in ast.walk(ast.parse(text)):
        if not isinstance(kind, ast.ClassDef) or "dataclass" not in "".join(map(ast.unparse, kind.decorator_list)):
            continue
        for statement in kind.body:
            if not isinstance(statement, ast.AnnAssign) or ast.unparse(statement.target) not in SECRET:
                continue
            hidden = statement.value is not None and "repr=False" in ast.unparse(statement.value)
            name = f"{kind.name}.{ast.unparse(statement.target)}"
            if ast.unparse(statement.annotation) in TEXT and not hidden and name not in URLS:
                fields.append(f"{file.relative_to(REPOSITORY)}: {name}")
    return fields


def test_no_data_class_prints_a_secret() -> None:
    fields = [line for file in MODULES for line in printed(file)]
    assert not fields, "\n".join(["field(repr=False) is missing:", *fields])


@pytest.mark.parametrize(
    ("field", "expected"), [("token: str", ["Login.token"]), ("token: str = field(repr=False)", [])]
)
def test_a_field_that_is_printed_is_found(
    tmp_path: Path, field: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.REPOSITORY", tmp_path)
    file = tmp_path / "login.py"
    file.write_text(f"@dataclass(frozen=True)\nclass Login:\n    {field}\n")
    assert [line.partition(": ")[2] for line in printed(file)] == expected
