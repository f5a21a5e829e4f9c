"""The model server with a model of words: clients, limits, batches that fail apart, ends of its processes."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from strata_bench.service_processes import Service
from strata_bench.waiting import eventually

from .words_server import SERVE, AskClients, StartWords, words_environment

SECONDS = 60.0


def ask(service: Service, prompt: Any = "one two", path: str = "/v1/completions", **fields: Any) -> requests.Response:
    """A completion."""
    return requests.post(service.url + path, json={"model": "words", "prompt": prompt, **fields}, timeout=SECONDS)


def code(response: requests.Response) -> tuple[int, str, str | None]:
    """Status, code and parameter of an error in OpenAI's shape."""
    error = response.json()["error"]
    return response.status_code, error["code"], error["param"]


def metric(service: Service, name: str) -> float:
    """The value of a metric."""
    lines = requests.get(f"{service.url}/metrics", timeout=SECONDS).text.splitlines()
    (value,) = (line.rpartition(" ")[2] for line in lines if line.rpartition(" ")[0] == name)
    return float(value)


def queued(service: Service, count: int) -> None:
    """Waits until so many inputs wait or run."""
    eventually(lambda: metric(service, "model_server_queue_length") == count, SECONDS, f"{count} inputs in the queue")


class Together:
    """Requests that reach the model in one batch: the model waits at the gate until all are queued."""

    def __init__(self, service: Service, gate: Path) -> None:
        self._service = service
        self._gate = gate

    def ask(self, *prompts: str, **fields: Any) -> list[requests.Response]:
        """Their responses."""
        with ThreadPoolExecutor(len(prompts) + 1) as pool:
            first = pool.submit(ask, self._service, "wait")
            waiting = self._gate.with_name("waiting")
            eventually(waiting.exists, SECONDS, "the model at the gate")
            waiting.unlink()
            others: list[Future[requests.Response]] = []
            for prompt in prompts:
                others.append(pool.submit(ask, self._service, prompt, **fields))
                queued(self._service, len(others) + 1)
            self._gate.touch()
            assert first.result().status_code == 200
            results = [other.result() for other in others]
        self._gate.unlink()
        return results


def test_unmodified_clients(start_words: StartWords, ask_clients: AskClients) -> None:
    with start_words() as service:
        output = ask_clients("generated", service.url, "words")
    said = "one two three "
    assert output == {
        "models": ["words"],
        "completions": [[said, "stop"], ["four ", "stop"]],
        "tokens": [4, 4],
        "streamed": said,
        "parts": 4,
        "chat": ["assistant", said, "stop"],
        "chat_streamed": said,
        "chat_end": "stop",
        "chat_tokens": 3,
        "inference_client": said,
        "inference_client_streamed": said,
        "inference_client_chat": said,
        "refused": [
            ["NotFoundError", "model_not_found", "model"],
            ["BadRequestError", "invalid_request", "max_tokens"],
            ["BadRequestError", "context_length_exceeded", "prompt"],
        ],
    }


def test_batches_fail_apart(start_words: StartWords, gate: Path) -> None:
    # requests that are in the queue reach the model a moment later
    with start_words(batch_wait=0.3) as service:
        together = Together(service, gate)

        good, bad, other = together.ask("one", "explode", "two")
        assert (good.json()["choices"][0]["text"], other.json()["choices"][0]["text"]) == ("one ", "two ")
        assert code(bad) == (500, "model_error", None)

        # 40 words, of 24 that fit: two halves; what never fits is alone in the end
        before = metric(service, "model_server_batch_size_sum")
        halves = together.ask(*[" ".join(["word"] * 10)] * 4)
        assert [response.status_code for response in halves] == [200] * 4
        assert metric(service, "model_server_batch_size_sum") - before == 1 + 4 * 2
        fits, never = together.ask("one", "huge")
        assert (fits.status_code, code(never)) == (200, (507, "out_of_memory", None))
        assert never.headers["x-should-retry"] == "false"  # OpenAI's clients repeat it otherwise

        before = metric(service, "model_server_batch_size_sum")
        sampled = together.ask("a", "b", temperature=0.5) + together.ask("c", "d")
        assert [response.status_code for response in sampled] == [200] * 4
        assert metric(service, "model_server_batch_size_sum") - before == 2 + 4 * 2


def test_queue_is_bounded(start_words: StartWords, gate: Path) -> None:
    with start_words(queue_size=3) as service, ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(ask, service, "wait") for _ in range(3)]
        queued(service, 3)
        refused = ask(service)
        assert code(refused) == (429, "queue_full", None)
        assert int(refused.headers["Retry-After"]) > 0
        streamed = ask(service, stream=True)
        assert code(streamed) == (429, "queue_full", None)
        gate.touch()
        assert [request.result().status_code for request in waiting] == [200] * 3
        assert ask(service, ["a", "b", "c"]).status_code == 200
        assert code(ask(service, ["a", "b", "c", "d"])) == (429, "queue_full", None)
        queued(service, 0)


def test_requests_time_out(start_words: StartWords, gate: Path) -> None:
    with start_words(timeout=0.5) as service:
        assert code(ask(service, "wait")) == (504, "timeout", None)
        with ThreadPoolExecutor(1) as pool:
            late = pool.submit(ask, service, "break")  # would end the server if it ran
            assert code(late.result()) == (504, "timeout", None)
        gate.touch()
        eventually(lambda: ask(service).status_code == 200, SECONDS, "an answer after the gate")
        queued(service, 0)


def test_a_client_that_leaves_gives_its_place_back(start_words: StartWords, gate: Path) -> None:
    with start_words(queue_size=1) as service:
        body = {"model": "words", "prompt": "one two", "stream": True}
        with requests.post(f"{service.url}/v1/completions", json=body, stream=True, timeout=SECONDS) as response:
            next(response.iter_lines())
        queued(service, 0)
        assert ask(service).status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/v1/completions", {"model": "words"}, (400, "invalid_request", "prompt")),
        ("/v1/completions", {"model": "words", "prompt": 5}, (400, "invalid_request", "prompt")),
        ("/v1/completions", {"model": "words", "prompt": "a", "n": 2}, (400, "invalid_request", None)),
        (
            "/v1/completions",
            {"model": "words", "prompt": "a", "temperature": 3},
            (400, "invalid_request", "temperature"),
        ),
        (
            "/v1/completions",
            {"model": "words", "prompt": ["a", "b"], "stream": True},
            (400, "invalid_request", "prompt"),
        ),
        ("/v1/chat/completions", {"model": "words", "messages": []}, (400, "invalid_request", "messages")),
        (
            "/v1/chat/completions",
            {"model": "words", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]},
            (400, "invalid_request", "messages.0.content"),
        ),
        (
            "/v1/chat/completions",
            {"model": "words", "messages": [{"role": "user", "content": "a"}], "max_completion_tokens": 9999},
            (400, "invalid_request", "max_completion_tokens"),
        ),
        ("/v1/embeddings", {"model": "words", "input": "a"}, (400, "invalid_request", "model")),
        ("/", {"parameters": {}}, (400, "invalid_request", "inputs")),
        (
            "/",
            {"inputs": "a", "parameters": {"max_new_tokens": 9999}},
            (400, "invalid_request", "parameters.max_new_tokens"),
        ),
        ("/v1/images", {}, (404, "http_error", None)),
    ],
)
def test_refusals_name_the_field(words: Service, path: str, body: object, expected: tuple[object, ...]) -> None:
    assert code(requests.post(words.url + path, json=body, timeout=SECONDS)) == expected


def test_metrics(words: Service) -> None:
    assert ask(words, "one two three", max_tokens=2).status_code == 200
    assert metric(words, 'model_server_tokens_total{direction="in"}') >= 3
    assert metric(words, 'model_server_tokens_total{direction="out"}') >= 2
    assert metric(words, 'model_server_requests_total{route="/v1/completions",status="200"}') >= 1
    assert metric(words, 'model_server_request_seconds_count{route="/v1/completions"}') >= 1
    assert ask(words, stream=True).status_code == 200
    assert metric(words, "model_server_first_part_seconds_count") >= 1


def test_a_lost_device_ends_the_process(start_words: StartWords) -> None:
    with start_words() as service:
        with pytest.raises(requests.RequestException):
            ask(service, "break")
        eventually(lambda: service.process.poll() is not None, SECONDS, "the end of the process")
        assert "Kubernetes starts another" in service.log


def test_a_model_that_does_not_load_ends_the_process(model_python: Path, gate: Path) -> None:
    for model, message in (("absent", "no such model"), ("killed", "was killed ([9])")):
        environment = words_environment(gate) | {"MODEL_SERVER_MODEL": model}
        done = subprocess.run(
            [str(model_python), "-c", SERVE],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS * 2,
        )
        assert done.returncode == 1
        assert message in done.stdout + done.stderr


def test_settings_that_are_wrong_are_named(model_python: Path) -> None:
    done = subprocess.run(
        [str(model_python), "-m", "model_server"],
        env={"ACCELERATOR": "tpu", "MODEL_SERVER_PORT": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 2
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == [
        "MODEL_SERVER_MODEL",
        "ACCELERATOR",
        "MODEL_SERVER_PORT",
    ]


def test_processors_of_the_container(model_python: Path, tmp_path: Path) -> None:
    program = "import sys, pathlib, model_server.processors as p; print(p.usable_processors(pathlib.Path(sys.argv[1])))"

    def count() -> int:
        command = [str(model_python), "-c", program, str(tmp_path)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS).stdout)

    everything = count()
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("-1\n")
    assert count() == everything
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("50000\n")
    assert count() == 1
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert count() == everything
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    assert count() == 1


def test_threads_of_the_model_do_not_spin(start_words: StartWords, model_python: Path, gate: Path) -> None:
    """Its process has the variables before it loads PyTorch, which reads them once; those of the operator stay."""
    program = "import model_server.processors as p; env = {}; p.limit_threads(env); print(env['OMP_NUM_THREADS'])"
    command = [str(model_python), "-c", program]
    processors = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS).stdout.strip()
    with start_words():
        variables = json.loads(gate.with_name("threads").read_text())
    assert variables == {"OMP_NUM_THREADS": processors, "OMP_WAIT_POLICY": "passive"}
    program = "import model_server.processors as p; p.limit_threads(env := {'OMP_NUM_THREADS': '7'}); print(env)"
    done = subprocess.run([str(model_python), "-c", program], capture_output=True, text=True, check=True)
    assert "'OMP_NUM_THREADS': '7'" in done.stdout
