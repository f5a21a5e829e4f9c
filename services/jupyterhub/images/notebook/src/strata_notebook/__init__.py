"""Extensions of Jupyter's server: culling, folders, a full home, and a token of the batch system."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from strata_notebook.batch import DIRECTORY, keep
from strata_notebook.folders import prepare
from strata_notebook.home import prepare_kernels


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}, {"module": f"{__name__}.culling"}]


def _load_jupyter_server_extension(server: Any) -> None:
    """Called by Jupyter's server; it does not wait for the token."""
    try:
        prepare(Path.home())
    except OSError as error:
        server.log.warning("no links in the home: %s", error)
    prepare_kernels(Path.home(), os.environ)
    if DIRECTORY in os.environ and "JUPYTERHUB_API_URL" in os.environ:
        server.io_loop.add_callback(keep, os.environ, server.log)
