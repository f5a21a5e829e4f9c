"""Kubernetes' API at the hub's start."""

from __future__ import annotations

import os
import ssl
import time
import urllib.request
from pathlib import Path

AUTHORITY = Path("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")
SECONDS = 180.0
REQUEST_SECONDS = 5.0


def wait_for_kubernetes(seconds: float = SECONDS, authority: Path = AUTHORITY) -> None:
    """Returns when the API responds, which takes a while when a node starts: a hub without it takes all users' servers
    for stopped.

    Args:
        seconds: how long at most.
        authority: certificate of the cluster's authority.

    Raises:
        SystemExit: it does not respond; the kubelet starts the hub again.
    """
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        return
    url = f"https://{f'[{host}]' if ':' in host else host}:{port}/version"
    end = time.monotonic() + seconds
    while True:
        try:
            # each time: the kubelet may not have written the file yet
            context = ssl.create_default_context(cafile=str(authority))
            with urllib.request.urlopen(url, timeout=REQUEST_SECONDS, context=context):
                return
        except OSError as error:
            if time.monotonic() > end:
                raise SystemExit(f"Kubernetes' API does not respond at {url}: {error}") from None
        time.sleep(1)
