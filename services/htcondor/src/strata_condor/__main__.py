"""`python3 -m strata_condor divide|provision|tokens|revoke|leave`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

from strata_condor import division, leaving, provisioner, tokens

COMMANDS: dict[str, Callable[[], None]] = {
    "divide": division.main,
    "provision": provisioner.main,
    "tokens": tokens.main,
    "revoke": leaving.revoke,
    "leave": leaving.leave,
}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in COMMANDS:
        sys.exit(f"usage: python3 -m strata_condor {'|'.join(COMMANDS)}")
    # the first process of a container ignores it otherwise; no command has anything to finish
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    COMMANDS[sys.argv[1]]()
