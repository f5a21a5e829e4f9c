"""A real scheduler, workers and client in the notebook's image; the gateway's proxy is between client and scheduler."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from strata.access.podman import exists, podman
from strata.images.build import LOCAL_PREFIX
from strata.images.filesystem_build import ensure_pod_bases
from strata.images.oci_layout import ensure_oci_layout
from strata.images.pod_images import folder_image
from strata.progress import Silent
from strata_bench.services import free_port, service_python
from strata_services.jupyterhub.service import SERVICE as JUPYTERHUB

NAME = "research.1234"
WORKERS = 3
LIMITS = ("--ulimit=nofile=20000:20000", "--ulimit=nproc=20000:20000")
KEYS = """
import sys
from dask_gateway_server.tls import new_keypair
for name, content in zip(("dask.crt", "dask.pem"), new_keypair(sys.argv[1])):
    open(name, "wb").write(content)
"""
PROXY = "import dask_gateway_server.proxy.core as core; print(core._PROXY_EXE)"
CLUSTER = """
import json, os, subprocess, sys
from dask_gateway.client import GatewaySecurity
import dask_gateway.comm
from distributed import Client
name, proxy, port, workers = sys.argv[1], *map(int, sys.argv[2:])
certificate, key = (f"/keys/dask.{kind}" for kind in ("crt", "pem"))
tls = {"CA_FILE": certificate}
for part in ("SCHEDULER", "WORKER"):
    tls |= {f"{part}__CERT": certificate, f"{part}__KEY": key}
environment = os.environ | {f"DASK_DISTRIBUTED__COMM__TLS__{key}": value for key, value in tls.items()}

def start(*command):
    options = ("--host=127.0.0.1", "--dashboard-address=127.0.0.1:0")
    return subprocess.Popen(["dask", *command, *options], env=environment, stdout=sys.stderr)

running = [start("scheduler", "--protocol=tls", f"--port={port}")]
security = GatewaySecurity(open(key).read(), open(certificate).read())
try:
    with Client(f"gateway://127.0.0.1:{proxy}/{name}", security=security, timeout=120) as client:
        sums = []
        for count in range(1, workers + 1):
            running.append(start("worker", f"tls://127.0.0.1:{port}", "--nthreads=1"))
            client.wait_for_workers(count, timeout=120)
            sums.append(sum(client.gather(client.map(lambda x, y: x * y, range(100), [count] * 100))))
        print(json.dumps(sums))
finally:
    for process in reversed(running):
        process.terminate()
        process.wait()
"""


def image() -> str:
    """The notebook's image as `strata up` builds it."""
    folder = JUPYTERHUB.folder / "images/notebook"
    source = folder_image("jupyterhub-notebook", folder, {}, ensure_pod_bases(["13"], Silent()))
    content = source.content_hash()
    layout, reference = ensure_oci_layout(source, content, Silent()), f"{LOCAL_PREFIX}/jupyterhub-notebook:{content}"
    return reference if exists("image", reference) else podman("pull", "--quiet", f"oci:{layout}").strip()


@contextmanager
def _routes(target: str) -> Iterator[str]:
    """The gateway's API of routes, which the proxy asks: one scheduler."""
    ended = threading.Event()
    routes = {"routes": [{"kind": "SNI", "sni": NAME, "target": target}], "id": 1}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            if "watch" in self.path:
                ended.wait()
            else:
                self.wfile.write(json.dumps(routes).encode())

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/api/v1/routes"
    finally:
        ended.set()
        server.shutdown()
        server.server_close()


@contextmanager
def _proxy(python: Path, routes: str) -> Iterator[int]:
    """The port of a running proxy."""
    program = subprocess.run([python, "-c", PROXY], check=True, capture_output=True, text=True).stdout.strip()
    port = free_port()
    process = subprocess.Popen(
        [program, "-address", f"127.0.0.1:{port}", "-api-url", routes],
        env={**os.environ, "DASK_GATEWAY_PROXY_TOKEN": uuid.uuid4().hex},
        stderr=subprocess.DEVNULL,
    )
    try:
        yield port
    finally:
        process.terminate()
        process.wait(30)


def sums(directory: Path) -> list[int]:
    """What a client of a new cluster computed after each worker that came: the sum of 0 to 99, times the workers.

    Args:
        directory: for keys.
    """
    python, port, container = service_python("dask-gateway"), free_port(), f"strata-test-dask-{uuid.uuid4().hex[:8]}"
    subprocess.run([python, "-c", KEYS, f"daskgateway-{NAME}"], check=True, cwd=directory)
    directory.chmod(0o755)
    for file in directory.iterdir():
        file.chmod(0o444)
    using = image()
    with ExitStack() as stack:
        routes = stack.enter_context(_routes(f"tls://127.0.0.1:{port}"))
        proxy = stack.enter_context(_proxy(python, routes))
        stack.callback(podman, "rm", "--force", "--ignore", "--time=0", container)
        # as the controller runs pods of a cluster
        output = podman(
            "run",
            "--rm",
            f"--name={container}",
            "--network=host",
            *LIMITS,
            "--read-only",
            "--cap-drop=all",
            "--user=1000:1000",
            "--tmpfs=/tmp:mode=1777",
            "--workdir=/tmp",
            f"--volume={directory}:/keys:ro",
            using,
            *("python3", "-c", CLUSTER, NAME, str(proxy), str(port), str(WORKERS)),
        )
    totals: list[int] = json.loads(output.splitlines()[-1])
    return totals
