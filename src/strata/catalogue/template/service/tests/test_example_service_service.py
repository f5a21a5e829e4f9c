"""example-service as a process, and its release."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from strata.catalogue.service import Service
from strata_services.example_service.service import SERVICE


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A running process."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    environment = os.environ | {"PORT": str(port), "PYTHONPATH": str(SERVICE.folder / "src")}
    with subprocess.Popen([sys.executable, "-m", "example_service"], env=environment) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def get(url: str) -> requests.Response:
    """A response, as soon as the process listens."""
    end = time.monotonic() + 10
    while True:
        try:
            return requests.get(url, timeout=5)
        except requests.ConnectionError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def test_it_responds(url: str) -> None:
    assert get(f"{url}/healthz").json() == {"status": "ok"}
    assert get(f"{url}/").json() == {"message": "Hello from example-service"}
    assert get(f"{url}/other").status_code == 404


def test_its_chart_takes_the_values(
    lab_with: Callable[..., Path], objects_of: Callable[[Service[Any], Path], list[dict[str, Any]]]
) -> None:
    objects = {o["kind"]: o for o in objects_of(SERVICE, lab_with(SERVICE, replicas=2))}
    assert objects["Deployment"]["spec"]["replicas"] == 2
    (rule,) = objects["Ingress"]["spec"]["rules"]
    assert rule["host"] == "example-service.lab.strata.test"
