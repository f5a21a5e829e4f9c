"""Commands of the catalogue's services: services/<name>/commands/."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from strata.catalogue.discovery import command_modules


class CatalogueGroup(TyperGroup):
    """The command line; loads the services' commands only to list all, or for a name that is none of its own.

    Contexts and commands are Any: typer carries a click of its own, whose names are private.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of all commands."""
        self._load()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name; None where there is none."""
        if cmd_name not in self.commands:
            self._load()
        return super().get_command(ctx, cmd_name)

    def _load(self) -> None:
        app = typer.Typer()
        for module in command_modules():
            module.register(app)
        for name, command in get_group(app).commands.items():
            self.commands.setdefault(name, command)
