"""Commands of the catalogue's services: services/<name>/commands.py."""

from __future__ import annotations

from typing import Any

import click
import typer
from typer.core import TyperGroup
from typer.main import get_group

from strata.catalogue.discovery import command_modules


class CatalogueGroup(TyperGroup):
    """The command line; loads the services' commands only to list all, or for a name that is none of its own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands."""
        self._load()
        return super().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        found = super().get_command(ctx, cmd_name)
        if found is None:
            self._load()
            found = super().get_command(ctx, cmd_name)
        return found

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The command that the arguments name; errors suggest from all of them."""
        if args and super().get_command(ctx, args[0]) is None:
            self._load()
        return super().resolve_command(ctx, args)

    def _load(self) -> None:
        app = typer.Typer()
        for module in command_modules():
            module.register(app)
        if app.registered_commands or app.registered_groups:
            for name, command in get_group(app).commands.items():
                self.commands.setdefault(name, command)
