"""Prints the podman reference of the node image of a Debian release: `node_image.py 12`."""

from __future__ import annotations

import sys

from strata_lab.images import ensure_node_image


class Silent:
    """A progress that shows nothing: standard output is the reference alone."""

    def update(self, message: str) -> None:
        """Drops the message."""


if __name__ == "__main__":
    print(ensure_node_image(sys.argv[1], Silent()))
