"""How long the model server takes to start and to answer, with a tiny T5 on processors."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from strata.errors import UserError
from strata_bench.model import Bench, Benchmark, Measure
from strata_services.inference.tests.real_image import image, make_models, model_server

NAME = "model-server"
MODEL = "/models/t5"
TOKENS = 8
ALONE = 100
"""Requests of one client, in each run."""
CLIENTS = 64
TOGETHER = 640
"""Requests of all clients, in each run."""
ONE_BY_ONE = 128


def requests(bench: Bench) -> Iterator[Measure]:
    """Starts, one client, many clients with batches and without.

    Raises:
        UserError: podman is not installed, or a request failed.
    """
    reference, models = image(), Path(bench.directory) / "models"
    models.mkdir(exist_ok=True)
    bench.progress.update(f"{NAME}: making tiny models")
    make_models(reference, models)
    volume = f"--volume={models}:/models:ro"
    starts, alone, together, single = [], [], [], []
    for _ in range(bench.runs):
        bench.progress.update(f"{NAME}: {CLIENTS} clients")
        begin = time.perf_counter()
        with model_server(reference, {"MODEL_SERVER_MODEL": MODEL}, volume) as (url, _name):
            asyncio.run(_load(url, 1, 1))
            starts.append(round(time.perf_counter() - begin, 2))
            alone += asyncio.run(_load(url, 1, ALONE))
            together.append(_each(url, TOGETHER))
        bench.progress.update(f"{NAME}: {CLIENTS} clients, one by one")
        with model_server(reference, {"MODEL_SERVER_MODEL": MODEL, "MODEL_SERVER_BATCH_SIZE": "1"}, volume) as (url, _):
            asyncio.run(_load(url, 1, 1))
            single.append(_each(url, ONE_BY_ONE))
    yield Measure(benchmark=NAME, what="start to first answer", unit="s", samples=tuple(starts))
    yield Measure(benchmark=NAME, what=f"{TOKENS} tokens, one client", unit="ms", samples=tuple(alone))
    note = "time of all requests by their number: 10 ms are 100 requests/s"
    yield Measure(benchmark=NAME, what=f"each of {CLIENTS} clients", unit="ms", samples=tuple(together), note=note)
    yield Measure(
        benchmark=NAME, what=f"each of {CLIENTS} clients, one by one", unit="ms", samples=tuple(single), note=note
    )


def _each(url: str, count: int) -> float:
    """Milliseconds of one of many requests at once."""
    begin = time.perf_counter()
    asyncio.run(_load(url, CLIENTS, count))
    return round((time.perf_counter() - begin) * 1000 / count, 2)


async def _load(url: str, clients: int, count: int) -> list[float]:
    """Milliseconds of each request; a client of Python's own sockets leaves more of the processors to the server."""
    address, left, taken = urlsplit(url), iter(range(count)), list[float]()

    async def client() -> None:
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        for number in left:
            body = json.dumps(
                {"model": MODEL, "prompt": f"The quick brown fox {number}", "max_tokens": TOKENS}
            ).encode()
            head = (
                "POST /v1/completions HTTP/1.1\r\nHost: model\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            )
            begin = time.perf_counter()
            writer.write(head.encode() + body)
            answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            content = await reader.readexactly(int(answer.partition("content-length:")[2].split()[0]))
            taken.append(round((time.perf_counter() - begin) * 1000, 2))
            if answer.split()[1] != "200":
                raise UserError(
                    f"benchmark {NAME}: {content.decode()}", fix="see what the model server wrote to its log"
                )
        writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return taken


BENCHMARKS = (
    Benchmark(
        NAME,
        "Model server",
        f"start, {TOKENS} tokens of a tiny T5 for one client and for {CLIENTS}",
        "nothing",
        requests,
    ),
)
