"""Machines without a cloud."""

from __future__ import annotations

from strata.provider.base import Provider


class MachinesProvider(Provider):
    """Bare-metal hosts that the site file names: the defaults of the interface."""
