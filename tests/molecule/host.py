"""Prepares the host for molecule's containers as for a lab site, or undoes it: `host.py prepare|restore`."""

from __future__ import annotations

import sys

from strata_lab import host

USER = "molecule"
"""Is in the host's record beside the names of sites."""

if __name__ == "__main__":
    if sys.argv[1] == "prepare":
        print("changed" if host.prepare(USER) else "ready")
    else:
        left = host.restore(USER)
        print("\n".join(left) if left else "changed")
