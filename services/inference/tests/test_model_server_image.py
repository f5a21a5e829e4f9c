"""The model server's image with PyTorch and tiny models of each task, loaded from a hub."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests

from .real_image import SECONDS, image, log, make_models, model_server
from .repository import hub_of
from .words_server import AskClients

pytestmark = [
    pytest.mark.nightly,  # no site uses the image, so it builds it
    pytest.mark.skipif(shutil.which("podman") is None, reason="podman is not installed"),
]
TOKENS = 8


@pytest.fixture(scope="module")
def reference() -> str:
    """The image."""
    return image()


@pytest.fixture(scope="module")
def models(reference: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories with the tiny models."""
    directory = tmp_path_factory.mktemp("models")
    make_models(reference, directory)
    return directory


@pytest.fixture
def start(reference: str, models: Path) -> Iterator[ExitStack]:
    """Ends what a test starts."""
    with ExitStack() as stack:
        yield stack


def hub_settings(endpoint: str, model: str) -> dict[str, str]:
    """Of a server that loads a model from a hub."""
    return {"HF_ENDPOINT": endpoint, "MODEL_SERVER_MODEL": f"lab/{model}", "MODEL_SERVER_REVISION": "v1"}


@pytest.mark.parametrize("model", ["t5", "gpt2"])
def test_text_of_a_model_from_the_hub(
    start: ExitStack, reference: str, models: Path, ask_clients: AskClients, model: str
) -> None:
    endpoint = start.enter_context(hub_of(models / model, f"lab/{model}", "v1"))
    url, name = start.enter_context(model_server(reference, hub_settings(endpoint, model)))
    output = ask_clients("generated", url, f"lab/{model}")
    first = output["completions"][0][0]
    assert first
    assert output["completions"][0][1] == "length"
    assert output["tokens"][1] == 2 * TOKENS
    # each way of asking gives the same text; T5 reads a chat's last message as a prompt, GPT-2 its chat template
    same = ("streamed", "inference_client", "inference_client_streamed")
    assert [output[way] for way in same] == [first] * len(same)
    assert output["chat_streamed"] == output["inference_client_chat"] == output["chat"][1]
    assert (output["chat"][1] == first) == (model == "t5")
    # the last part ends it; T5's random bytes are seldom whole characters
    assert output["parts"] > (2 if model == "gpt2" else 1)
    assert output["refused"][2][1] == "context_length_exceeded"
    assert f"lab/{model}: " in log(name)


def test_revisions_that_the_hub_does_not_have(reference: str, models: Path) -> None:
    with hub_of(models / "t5", "lab/t5", "v1") as endpoint:
        settings = {**hub_settings(endpoint, "t5"), "MODEL_SERVER_REVISION": "v2"}
        with pytest.raises(AssertionError, match="it ended"), model_server(reference, settings):
            pass


def test_rows_of_a_batch_do_not_change_each_other(start: ExitStack, reference: str, models: Path) -> None:
    """Padding, different lengths, stop texts and streams beside each other."""
    settings = {"MODEL_SERVER_MODEL": "/models/gpt2", "MODEL_SERVER_BATCH_WAIT": "0.5"}
    url, _ = start.enter_context(model_server(reference, settings, f"--volume={models}:/models:ro"))

    def ask(number: int) -> tuple[str, int]:
        body = {"model": "/models/gpt2", "prompt": "fox " * number, "max_tokens": 4 + number}
        choice = requests.post(f"{url}/v1/completions", json=body, timeout=SECONDS).json()
        return choice["choices"][0]["text"], choice["usage"]["completion_tokens"]

    alone = [ask(number) for number in range(1, 9)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(ask, range(1, 9)))
    assert together == alone
    assert [tokens for _, tokens in alone] == [4 + number for number in range(1, 9)]
    whole = alone[0][0]
    stop = whole[2:4]
    body = {"model": "/models/gpt2", "prompt": "fox ", "max_tokens": 5, "stop": stop}
    stopped = requests.post(f"{url}/v1/completions", json=body, timeout=SECONDS).json()["choices"][0]
    assert (stopped["text"], stopped["finish_reason"]) == (whole[: whole.index(stop)], "stop")


def test_embeddings_and_labels(start: ExitStack, reference: str, models: Path, ask_clients: AskClients) -> None:
    volume = f"--volume={models}:/models:ro"
    url, _ = start.enter_context(model_server(reference, {"MODEL_SERVER_MODEL": "/models/embedder"}, volume))
    output = ask_clients("embedded", url, "/models/embedder")
    packed, plain = output["packed"], output["plain"]
    assert len(packed[0]) == len(plain) == 64
    assert packed[1] == pytest.approx(plain, abs=1e-5)  # beside a longer text, padding does not count
    assert output["inference_client"][0] == pytest.approx(plain, abs=1e-5)
    assert packed[0] != pytest.approx(plain, abs=1e-2)
    url, _ = start.enter_context(model_server(reference, {"MODEL_SERVER_MODEL": "/models/classifier"}, volume))
    labels = dict(ask_clients("classified", url, "/models/classifier")["labels"])
    assert sorted(labels) == ["calm", "loud"]
    assert sum(labels.values()) == pytest.approx(1)


def test_too_little_memory_is_an_answer(start: ExitStack, reference: str, models: Path) -> None:
    """PyTorch's own error: the process may map 6 GiB, and attention to 20,000 tokens needs more."""
    settings = {"MODEL_SERVER_MODEL": "/models/t5", "MODEL_SERVER_INPUT_TOKENS": "100000"}
    volume, limited = f"--volume={models}:/models:ro", f"ulimit -v {6 << 20}; exec python3 -m model_server"
    url, name = start.enter_context(
        model_server(reference, settings, volume, "--entrypoint=/bin/sh", command=("-c", limited))
    )

    def ask(words: int) -> requests.Response:
        body = {"model": "/models/t5", "prompt": "fox " * words, "max_tokens": 2}
        return requests.post(f"{url}/v1/completions", json=body, timeout=SECONDS)

    assert ask(1).status_code == 200
    refused = ask(20000)
    assert (refused.status_code, refused.json()["error"]["code"]) == (507, "out_of_memory")
    assert ask(1).status_code == 200
    assert "out of memory with 1 inputs" in log(name)


def test_a_gpu_that_is_required_is_missing(reference: str, models: Path) -> None:
    settings = {"MODEL_SERVER_MODEL": "/models/t5", "ACCELERATOR": "gpu"}
    with (
        pytest.raises(AssertionError, match="PyTorch finds no GPU"),
        model_server(reference, settings, f"--volume={models}:/models:ro"),
    ):
        pass
