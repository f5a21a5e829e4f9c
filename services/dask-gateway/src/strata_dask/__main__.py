"""Starts the gateway or the controller."""

from __future__ import annotations

import sys
from pathlib import Path

from dask_gateway_server.app import DaskGateway

from strata_dask.controller import Controller

PARTS = {"gateway": DaskGateway, "controller": Controller}


def main() -> None:
    """`python -m strata_dask gateway|controller`."""
    if len(sys.argv) != 2 or sys.argv[1] not in PARTS:
        raise SystemExit("usage: python -m strata_dask gateway|controller")
    configuration = Path(__file__).with_name("configuration.py")
    PARTS[sys.argv[1]].launch_instance([f"--config={configuration}"])


main()
