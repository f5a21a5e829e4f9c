"""python3 -m strata_lab.network run|remove --site NAME …"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import time
from ipaddress import IPv4Network
from types import FrameType

from strata_lab.network import nft
from strata_lab.network.agent import FAMILIES, POLL_SECONDS, RETRY_SECONDS, Agent
from strata_lab.network.filtering import table_name


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # the signature of a handler
    raise SystemExit(0)


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="strata-network-agent", description=__doc__)
    parser.add_argument("command", choices=["run", "remove"])
    parser.add_argument("--site", required=True)
    parser.add_argument("--control-network", type=IPv4Network)
    parser.add_argument("--controller")
    parser.add_argument("--backup-store")
    parser.add_argument("--client", action="append", default=[], help="a network of the site")
    options = parser.parse_args()
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    if options.command == "remove":
        nft.remove(FAMILIES, table_name(options.site))
        return 0
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    agent = Agent(
        options.site,
        options.control_network,
        options.controller,
        backup_store=options.backup_store,
        clients=tuple(options.client),
    )
    while True:
        try:
            agent.look()
        except nft.NftError as error:
            # the kernel keeps the last ruleset; the next try may find a better file
            logging.error("nft: %s", error)
            time.sleep(RETRY_SECONDS)
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
