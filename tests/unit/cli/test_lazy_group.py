"""Commands are loaded when they are called; lists of them are read from their sources."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from strata.cli.lazy_group import FOLDER, ORDER, PACKAGE, LazyGroup
from strata.cli.main import app
from strata.service_modules import command_packages

NAMES = sorted([*ORDER, *command_packages()])


def group() -> LazyGroup:
    command = typer.main.get_group(app)
    assert isinstance(command, LazyGroup)
    return command


def test_each_module_has_its_place_in_the_list() -> None:
    assert sorted(ORDER) == sorted(file.stem.replace("_", "-") for file in FOLDER.glob("[!_]*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_a_command_is_described_as_it_will_be_once_loaded(name: str) -> None:
    commands = group()
    commands._outline()
    outline = commands.commands[name]
    loaded = group().get_command(None, name)
    assert (outline.name, outline.get_short_help_str()) == (loaded.name, loaded.get_short_help_str())
    assert loaded.params or loaded.commands


@pytest.mark.parametrize(
    ("arguments", "loaded"), [(["--help"], set()), (["explian"], set()), (["users", "--help"], {f"{PACKAGE}.users"})]
)
def test_other_commands_are_not_loaded(arguments: list[str], loaded: set[str], tmp_path: Path) -> None:
    program = f"""
import pathlib, sys
from strata.cli.main import app
try:
    app({arguments!r})
finally:
    loaded = [m for m in sys.modules if m.startswith(("{PACKAGE}.", "strata_services.accounting.commands"))]
    pathlib.Path({str(tmp_path / "loaded")!r}).write_text(" ".join(loaded))
"""
    subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert set((tmp_path / "loaded").read_text().split()) == loaded


def test_completion_lists_the_commands() -> None:
    environment = {"_STRATA_COMPLETE": "complete_bash", "COMP_WORDS": "strata se", "COMP_CWORD": "1"}
    done = CliRunner().invoke(app, prog_name="strata", env=environment)
    assert done.output.split() == ["secrets"]
