"""nova's compute API and its metadata API in one process; each has a port of its own.

Two processes would take another 130 MB and another start of nova's code. The environment variable NOVA_METADATA_PORT
is the metadata API's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from nova.wsgi import metadata, osapi_compute

METADATA_PORT = os.environ["NOVA_METADATA_PORT"]


def application(environment: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """The WSGI application: gunicorn passes the port of a request."""
    asked_for_metadata = environment["SERVER_PORT"] == METADATA_PORT
    response: Iterable[bytes] = (metadata if asked_for_metadata else osapi_compute).application(
        environment, start_response
    )
    return response
