"""A hub that starts before Kubernetes' API responds, as after the loss of its node."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from strata_bench.https_server import https_server

from .image_code import run_code

WAIT = """
import sys
from pathlib import Path
from strata_hub.kubernetes import wait_for_kubernetes
wait_for_kubernetes(float(sys.argv[1]), Path(sys.argv[2]))
print("responds")
"""
REFLECTOR = """
import asyncio, logging
from strata_hub.waiting import SiteSpawner
class Reflector:
    works = False
    def __init__(self, **options):
        self.first_load_future = asyncio.get_running_loop().create_future()
    async def start(self):
        await asyncio.sleep(0.1)
        if not self.works:
            raise OSError("no API")
        self.first_load_future.set_result(None)
async def main():
    spawner = SiteSpawner.__new__(SiteSpawner)
    spawner.namespace, spawner.log = "jupyterhub", logging.getLogger()
    start = lambda: spawner._start_reflector(kind="pods", reflector_class=Reflector)
    print(*map(repr, await asyncio.gather(start(), start(), return_exceptions=True)))
    Reflector.works = True
    await start()
    print("lists")
asyncio.run(asyncio.wait_for(main(), 30))
"""


class Api(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/version" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def test_it_waits_for_the_api_and_its_authority(tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    with https_server(Api, tmp_path) as server, ThreadPoolExecutor(1) as pool:
        where = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)}
        waiting = pool.submit(run_code, WAIT, "60", str(authority), **where)
        time.sleep(2)
        assert not waiting.done()
        authority.write_text(server.ca)
        assert waiting.result().stdout == "responds\n"
    ended = run_code(WAIT, "1", str(authority), **where)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"Kubernetes' API does not respond at https://127.0.0.1:{server.port}/version: ")


def test_outside_of_a_cluster_there_is_nothing_to_wait_for(tmp_path: Path) -> None:
    assert run_code(WAIT, "60", str(tmp_path / "none")).stdout == "responds\n"


def test_a_list_of_pods_that_failed_is_loaded_at_the_next_call() -> None:
    """All who wait for it learn of the failure."""
    done = run_code(REFLECTOR)
    assert done.stdout == "OSError('no API') OSError('no API')\nlists\n", done.stderr
