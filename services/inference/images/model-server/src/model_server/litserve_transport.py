"""LitServe: the process of the model, the queue to it, and HTTP."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import threading
import time
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Callable
from queue import Empty
from typing import Any

import litserve
from litserve.loops.base import DefaultLoop
from litserve.server import ResponseBufferItem
from litserve.specs.base import LitSpec
from litserve.utils import LitAPIStatus, LoopResponseType, WorkerSetupStatus

from model_server.backend import Backend, BrokenError
from model_server.batches import run_batch
from model_server.jobs import Event, Job, Kind
from model_server.metrics import Metrics
from model_server.processors import limit_threads
from model_server.routes import install
from model_server.settings import Settings
from model_server.submission import Submission

LOG = logging.getLogger(__name__)

Load = Callable[[Settings], Backend]


class _Spec(LitSpec):  # type: ignore[misc]  # LitServe ships no types
    """No route of LitServe's; gives the queues to `LitServeTransport`."""

    def __init__(self) -> None:
        super().__init__()
        self.api_path = "/model"

    @property
    def stream(self) -> bool:
        return True


class _Loop(DefaultLoop):  # type: ignore[misc]
    """Waits for a job, takes those that arrive with it, and answers each by itself.

    LitServe's own loops poll each millisecond, fail a batch with its worst input, and answer all rows of a stream when
    the last one is done (docs/decisions/0110).
    """

    def run(
        self,
        lit_api: _API,
        device: str,
        worker_id: int,
        request_queue: Any,
        transport: Any,
        workers_setup_status: Any,
        callback_runner: Any,
    ) -> None:
        """One batch."""
        try:
            requests = [request_queue.get(timeout=1.0)]
        except Empty:
            return
        end = time.monotonic() + lit_api.settings.batch_wait
        while len(requests) < lit_api.settings.batch_size:
            try:
                requests.append(request_queue.get(timeout=max(0.0, end - time.monotonic())))
            except Empty:
                break
        try:
            for position, event in run_batch(lit_api.backend, [request[3] for request in requests]):
                consumer, uid, *_ = requests[position]
                self.put_response(transport, consumer, uid, event, LitAPIStatus.OK, LoopResponseType.STREAMING)
        except BrokenError:
            LOG.exception("the device is lost; the process ends, so that Kubernetes starts another")
            os._exit(1)


class _API(litserve.LitAPI):  # type: ignore[misc]
    def __init__(self, settings: Settings, load: Load) -> None:
        super().__init__(max_batch_size=settings.batch_size, stream=True, loop=_Loop(), spec=_Spec())
        self.settings = settings
        self._load = load

    def setup(self, device: str) -> None:
        """Loads the model, in its process."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        logging.basicConfig(level=logging.INFO)
        self.backend = self._load(self.settings)
        # the first run of a GPU takes seconds
        warm_up = [Job(Kind.ANY, "warm up", max_tokens=2)]
        LOG.info("warm-up: %s", [event for _, event in run_batch(self.backend, warm_up)][-1])

    def predict(self, x: Any) -> Any:
        """Not called: the loop runs the batches."""
        yield x


class LitServeTransport:
    """Sends jobs by LitServe's queues."""

    def __init__(self, server: litserve.LitServer, spec: _Spec) -> None:
        self._server = server
        self._spec = spec

    def ready(self) -> bool:
        """Whether the model is loaded."""
        return all(status == WorkerSetupStatus.READY for status in self._server.workers_setup_status.values())

    async def send(self, job: Job) -> AsyncGenerator[Event, None]:
        """See Transport."""
        uid, events, arrived = str(uuid.uuid4()), deque[tuple[Event, LitAPIStatus]](), asyncio.Event()
        self._spec.response_buffer[uid] = ResponseBufferItem(response_queue=events, event=arrived)
        try:
            self._spec.request_queue.put((self._spec.response_queue_id, uid, time.monotonic(), job))
            while True:
                await arrived.wait()
                arrived.clear()
                while events:
                    yield events.popleft()[0]
        finally:
            self._spec.response_buffer.pop(uid, None)


def _end_with_worker(server: litserve.LitServer, ending: threading.Event) -> None:
    """Ends the server if the model's process is killed: what it had been sent is lost.

    LitServe waits forever if that happens while the model loads, and 30 s for its requests if it happens later.
    """
    while not ending.wait(0.2):
        codes = [worker.exitcode for worker in getattr(server, "inference_workers", [])]
        if any(code not in {None, 0} for code in codes):  # 0: the model did not load; LitServe logs it
            LOG.error("the process of the model was killed (%s); does it need more memory?", codes)
            for child in multiprocessing.active_children():
                child.kill()
            os._exit(1)


def serve(settings: Settings, load: Load) -> None:
    """Serves a model until the process gets SIGTERM.

    Args:
        settings: of the server.
        load: makes the model, in a process of its own.
    """
    limit_threads(os.environ)  # the model's process inherits it, and loads PyTorch
    api = _API(settings, load)
    # the worker chooses its device itself: LitServe asks nvidia-smi, which a pod need not have
    server = litserve.LitServer(
        api, accelerator="cpu", timeout=False, healthcheck_path="/health", disable_openapi_url=True
    )
    metrics = Metrics()
    submission = Submission(LitServeTransport(server, api.spec), settings.queue_size, metrics)
    install(server.app, settings, submission, metrics)

    ending = threading.Event()

    def interrupt(*_: object) -> None:
        ending.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    threading.Thread(target=_end_with_worker, args=(server, ending), daemon=True).start()
    server.run(port=settings.port, num_api_servers=1, generate_client_file=False, access_log=False, log_level="warning")
