"""Machines without a cloud."""

from __future__ import annotations

from typing import ClassVar

from strata.provider.base import Provider


class MachinesProvider(Provider):
    """Bare-metal hosts that the site file names."""

    contents: ClassVar[str] = "the state"
    stop_with: ClassVar[str] = "drain the nodes, then shut the machines down over SSH"
