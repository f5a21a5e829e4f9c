"""Loads a command's module when the command is called."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from strata.service_modules import command_packages

PACKAGE = "strata.cli.commands"
FOLDER = Path(__file__).with_name("commands")
ORDER = (
    "up", "plan", "status", "report", "verify", "validate", "explain", "doctor", "env", "down", "destroy",
    "adopt", "kubespray", "users", "kubeconfig", "secrets", "certificates", "backup", "restore", "state",
    "new", "new-role", "new-service",
)  # fmt: skip
"""Of the commands in `strata --help`, before those of the services."""


class LazyGroup(TyperGroup):
    """The commands in strata/cli/commands/ and those of the services.

    Lists of commands are made from the sources' docstrings: importing them all takes seconds.

    Contexts and commands are Any: typer carries a click of its own, whose names are private.
    """

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the base's signature
        """Names of all commands."""
        return list(_modules())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - the base's signature
        """The command of that name; None if there is none."""
        if cmd_name not in self.commands:
            module = _modules().get(cmd_name)
            if module is None:
                self._outline()  # typer suggests names of what it knows
                return None
            self.commands[cmd_name] = _load(cmd_name, module)
        return self.commands[cmd_name]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Lists the commands without loading them."""
        self._outline()
        super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Lists the commands without loading them."""
        self._outline()
        return super().shell_complete(ctx, incomplete)

    def _outline(self) -> None:
        for name, (_, file) in _modules().items():
            self.commands.setdefault(name, TyperCommand(name, help=_help(name, file)))


def _modules() -> dict[str, tuple[str, Path]]:
    """Names of commands to the modules' names and files."""
    own = {file.stem.replace("_", "-"): (f"{PACKAGE}.{file.stem}", file) for file in FOLDER.glob("[!_]*.py")}
    ordered = sorted(own, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))
    return {name: own[name] for name in ordered} | command_packages()


def _load(name: str, module: tuple[str, Path]) -> Any:
    """A module has a function with the command's name, or `app`, a group of commands."""
    loaded = importlib.import_module(module[0])
    group: typer.Typer | None = getattr(loaded, "app", None)
    if group is not None:
        command = get_group(group)
        command.name = name
        return command
    alone = typer.Typer()
    alone.command(name)(getattr(loaded, name.replace("-", "_")))
    return get_group(alone).commands[name]


def _help(name: str, file: Path) -> str | None:
    """The docstring of the command's function, or of the module of a group."""
    module = ast.parse(file.read_text())
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    own = next((function for function in functions if function.name == name.replace("-", "_")), module)
    return ast.get_docstring(own)
