"""The API in front of the models: starts and stops, limits, tenants, what passes, by the real API server and openai."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from strata_bench.api_server import ApiServer
from strata_bench.http_contract import check_contract
from strata_bench.service_processes import Service
from strata_bench.waiting import eventually

from .conftest import DEPLOYMENTS, NAMESPACE, SCRIPTED, SECONDS, WORDS, Asker, Scripted, StartApi, Upgrade
from .controller import STARTING, Controller, crashed, not_pulled, unschedulable

Token = Callable[..., str]
DEPLOYMENT = DEPLOYMENTS[SCRIPTED]
EVENTS = {"Content-Type": "text/event-stream; charset=utf-8"}
CLIENTS = """
import json, sys
import openai
from huggingface_hub import InferenceClient

url, token, model = sys.argv[1:]
client = openai.OpenAI(base_url=f"{url}/v1", api_key=token, max_retries=0)
messages = [{"role": "user", "content": "one two three"}]
stream = client.chat.completions.create(model=model, messages=messages, stream=True)
chunks = list(stream)
by_path = InferenceClient(model=f"{url}/models/{model}", token=token)
output = {
    "models": [model.id for model in client.models.list()],
    "model": client.models.retrieve(model).id,
    "completion": client.completions.create(model=model, prompt="one two").choices[0].text,
    "chat": client.chat.completions.create(model=model, messages=messages).choices[0].message.content,
    "streamed": "".join(chunk.choices[0].delta.content or "" for chunk in chunks),
    "choices": min(len(chunk.choices) for chunk in chunks),
    "generated": by_path.text_generation("one two"),
    "generated_streamed": "".join(by_path.text_generation("one two", stream=True)),
    "by_path_chat": by_path.chat_completion(messages).choices[0].message.content,
}
try:
    client.completions.create(model="teaching/words", prompt="one")
except openai.APIStatusError as error:
    output["foreign"] = [type(error).__name__, error.response.json()["status"]]
print(json.dumps(output))
"""


@pytest.fixture
def api(start_api: StartApi, controller: Controller) -> Iterator[Service]:
    """The API, with all models stopped."""
    assert controller
    with start_api() as service:
        yield service


@pytest.fixture
def ada(api: Service, token: Token) -> Asker:
    """A member of research."""
    return Asker(api.url, token("research"))


def metric(service: Service, name: str, **labels: str) -> float:
    """A value of /metrics."""
    port = re.search(r"INFERENCE_METRICS_PORT=(\d+)", Path(f"/proc/{service.process.pid}/environ").read_text())
    assert port
    text = requests.get(f"http://127.0.0.1:{port[1]}/metrics", timeout=30).text
    lines = [line for line in text.splitlines() if line.startswith(name + "{")]
    chosen = [line for line in lines if all(f'{key}="{value}"' in line for key, value in labels.items())]
    return sum(float(line.rpartition(" ")[2]) for line in chosen)


def test_unmodified_clients_start_and_ask_a_model(
    start_api: StartApi, controller: Controller, words_url: str, model_python: Path, token: Token
) -> None:
    with start_api(words=words_url) as service:
        command = [str(model_python), "-c", CLIENTS, service.url, token("research"), WORDS]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {
            "models": [WORDS, SCRIPTED],
            "model": WORDS,
            "completion": "one two ",
            "chat": "one two three ",
            "streamed": "one two three ",
            # the event with tokens, which the API asked for, is not passed on
            "choices": 1,
            "generated": "one two ",
            "generated_streamed": "one two ",
            "by_path_chat": "one two three ",
            "foreign": ["NotFoundError", "error"],
        }
        assert controller.made == [DEPLOYMENTS[WORDS]]
        by = {"model": WORDS, "tenant": "research"}
        # 2 of the completion, 3 of each chat, 2 of the streamed task; the plain task reports none
        assert metric(service, "inference_tokens_total", direction="out", **by) == 13
        assert metric(service, "inference_tokens_total", direction="in", **by) == 13


def test_ml_hub_s_routes(start_api: StartApi, controller: Controller, words_url: str, token: Token) -> None:
    assert controller
    with start_api(words=words_url) as service:
        ada = Asker(service.url, "")
        tapis = {"headers": {"Authorization": "", "X-Tapis-Token": token("research")}}
        listed = ada("GET", "/v3/ml-hub/inference", **tapis).json()
        assert listed["status"] == "success"
        assert listed["result"]["pipeline_tag"] == "text2text-generation"
        assert listed["result"]["available_models"] == [WORDS, SCRIPTED]
        for name in (WORDS, WORDS.replace("/", "%2F")):
            answer = ada("POST", f"/v3/ml-hub/inference/{name}", {"prompt": "one two"}, **tapis)
            assert (answer.status_code, answer.json()["result"]) == (200, "one two ")
        refused = ada("POST", f"/v3/ml-hub/inference/{WORDS}", {"prompt": "long " * 30}, **tapis)
        assert (refused.status_code, refused.json()["status"]) == (400, "error")
        assert "30 words" in refused.json()["message"]
        assert ada("POST", f"/v3/ml-hub/inference/{WORDS}", {"prompt": 1}, **tapis).status_code == 400


@pytest.mark.parametrize("tenants", [(), ("teaching",)])
def test_models_of_others_are_not_there(api: Service, token: Token, controller: Controller, tenants: Any) -> None:
    eve = Asker(api.url, token(*tenants))
    body = {"prompt": "one", "inputs": "one", "messages": [{"role": "user", "content": "one"}]}
    for path in (f"/models/{WORDS}", f"/models/{WORDS}/v1/chat/completions", f"/v3/ml-hub/inference/{WORDS}"):
        assert eve("POST", path, body).status_code == 404
    for path in ("/v1/completions", "/v1/chat/completions", "/v1/embeddings"):
        assert eve("POST", path, {**body, "input": "one", "model": WORDS}).status_code == 404
    assert eve("GET", f"/v1/models/{WORDS}").status_code == 404
    assert WORDS not in [model["id"] for model in eve("GET", "/v1/models").json()["data"]]
    assert WORDS not in eve("GET", "/v3/ml-hub/inference").text
    assert not controller.made


def test_without_a_token_nothing_is_read(api: Service) -> None:
    for path in ("/v1/completions", f"/models/{WORDS}", f"/v3/ml-hub/inference/{WORDS}"):
        answer = requests.post(api.url + path, data=b"x" * 5000, timeout=60)
        assert answer.status_code == 401
        assert answer.json()["status"] == "error"


def test_concurrent_first_requests_start_it_once(ada: Asker, api: Service, controller: Controller) -> None:
    controller.status[DEPLOYMENT] = STARTING
    with ThreadPoolExecutor(20) as pool:
        answers = [pool.submit(ada.complete) for _ in range(20)]
        by = {"model": SCRIPTED}
        eventually(lambda: metric(api, "inference_requests_in_hand", **by) == 20, SECONDS, "all requests wait")
        eventually(lambda: ada.states()[SCRIPTED] == "starting", SECONDS, "the list says that it starts")
        del controller.status[DEPLOYMENT]
        assert [answer.result().status_code for answer in answers] == [200] * 20
    assert controller.made == [DEPLOYMENT]
    assert metric(api, "inference_model_starts_total", outcome="ready", **by) == 1


def test_a_pod_that_is_ready_must_respond(ada: Asker, controller: Controller, scripted: Scripted) -> None:
    scripted.ready = False
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ada.complete)
        eventually(lambda: DEPLOYMENT in controller.made, SECONDS, "the pod is made")
        eventually(lambda: controller.replicas(DEPLOYMENT) == 1, SECONDS, "it is scaled")
        assert not scripted.seen
        scripted.ready = True
        assert answer.result().status_code == 200


def test_more_requests_than_the_limit(start_api: StartApi, controller: Controller, token: Token) -> None:
    controller.status[DEPLOYMENT] = STARTING
    with start_api(INFERENCE_MODEL_REQUESTS="2") as service, ThreadPoolExecutor(2) as pool:
        ada = Asker(service.url, token("research"))
        waiting = [pool.submit(ada.complete) for _ in range(2)]
        eventually(lambda: metric(service, "inference_requests_in_hand") == 2, SECONDS, "two requests wait")
        refused = ada.complete()
        assert (refused.status_code, refused.json()["status"]) == (429, "error")
        assert int(refused.headers["Retry-After"]) > 0
        controller.status.clear()
        assert [request.result().status_code for request in waiting] == [200, 200]
        assert ada.complete().status_code == 200


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("status", "text"),
    [
        (crashed("loading\nresearch/x is not in the hub"), "research/x is not in the hub"),
        (crashed("", "OOMKilled"), "raise `memory`"),
        (not_pulled(), "ImagePullBackOff: not found"),
        (unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."), "Insufficient nvidia.com/gpu"),
    ],
)
def test_a_start_that_fails(ada: Asker, api: Service, controller: Controller, status: Any, text: str) -> None:
    controller.status[DEPLOYMENT] = status
    refused = ada.complete()
    assert (refused.status_code, refused.json()["status"]) == (503, "error")
    assert text in refused.json()["message"]
    assert int(refused.headers["Retry-After"]) > 0
    assert ada.states()[SCRIPTED] == "failed"
    assert metric(api, "inference_model_starts_total", outcome="failed", model=SCRIPTED) == 1
    # what repaired it, for instance a model that was published meanwhile, needs no other request before
    controller.status.clear()
    eventually(lambda: ada.states()[SCRIPTED] == "ready", SECONDS, "the model is ready")
    assert ada.complete().status_code == 200


@pytest.mark.nightly
def test_a_start_that_takes_too_long(start_api: StartApi, controller: Controller, token: Token) -> None:
    controller.status[DEPLOYMENT] = STARTING
    with start_api(INFERENCE_START_SECONDS="1") as service:
        ada = Asker(service.url, token("research"))
        refused = ada.complete()
        assert refused.status_code == 503
        assert "still starting" in refused.json()["message"]
        controller.status.clear()
        eventually(lambda: ada.complete().status_code == 200, SECONDS, "it has started")
    assert controller.made == [DEPLOYMENT]


@pytest.mark.nightly
def test_a_deployment_that_is_missing(ada: Asker, api_server: ApiServer, upgrade: Upgrade) -> None:
    api_server.kubectl("-n", NAMESPACE, "delete", "deployment", DEPLOYMENT)
    try:
        refused = ada.complete()
    finally:
        api_server.kubectl("-n", NAMESPACE, "delete", "pods", "--all", "--now")
        upgrade(logLevel="debug")
        upgrade()
    assert refused.status_code == 503
    assert "Deployment is missing; fix: strata up" in refused.json()["message"]


def test_idle_models_stop_and_start_again(
    start_api: StartApi, controller: Controller, scripted: Scripted, token: Token
) -> None:
    with start_api(idle=1) as service, ThreadPoolExecutor(1) as pool:
        ada = Asker(service.url, token("research"))
        scripted.proceed.clear()
        answer = pool.submit(ada.complete)
        eventually(lambda: bool(scripted.seen), SECONDS, "the request runs")
        # one that runs for longer than the time of idleness
        checks = service.log.count("model stopped")
        with pytest.raises(AssertionError):
            eventually(lambda: controller.replicas(DEPLOYMENT) == 0, 3, "it is stopped while it is used")
        scripted.proceed.set()
        assert answer.result().status_code == 200
        eventually(lambda: controller.replicas(DEPLOYMENT) == 0, SECONDS, "it is stopped")
        assert service.log.count("model stopped") == checks + 1
        eventually(lambda: ada.states()[SCRIPTED] == "stopped", SECONDS, "the API says so")
        eventually(lambda: not controller.runs(DEPLOYMENT), SECONDS, "its pod has ended")
        assert ada.complete().status_code == 200
    assert controller.made == [DEPLOYMENT, DEPLOYMENT]


@pytest.mark.nightly
def test_a_new_process_stops_what_another_started(start_api: StartApi, controller: Controller, token: Token) -> None:
    with start_api() as service:
        assert Asker(service.url, token("research")).complete().status_code == 200
    assert controller.replicas(DEPLOYMENT) == 1
    with start_api() as service:
        ada = Asker(service.url, token("research"))
        eventually(lambda: ada.states()[SCRIPTED] == "ready", SECONDS, "it knows that the model is ready")
        assert controller.replicas(DEPLOYMENT) == 1
    with start_api(idle=1):
        eventually(lambda: controller.replicas(DEPLOYMENT) == 0, SECONDS, "it is stopped")


@pytest.mark.nightly
def test_a_model_that_an_operator_stops(ada: Asker, controller: Controller) -> None:
    assert ada.complete().status_code == 200
    controller.scale(DEPLOYMENT, 0)
    eventually(lambda: not controller.runs(DEPLOYMENT), SECONDS, "its pod has ended")
    eventually(lambda: ada.states()[SCRIPTED] == "stopped", SECONDS, "the API knows")
    assert ada.complete().status_code == 200
    assert controller.made == [DEPLOYMENT, DEPLOYMENT]


def test_an_upgrade_of_the_release_keeps_models_running(controller: Controller, upgrade: Upgrade) -> None:
    controller.scale(DEPLOYMENT, 1)
    upgrade(cacheSize="30Gi")
    assert controller.replicas(DEPLOYMENT) == 1
    controller.scale(DEPLOYMENT, 0)
    upgrade()
    assert controller.replicas(DEPLOYMENT) == 0


@pytest.mark.nightly
def test_a_process_that_ends_answers_first(
    start_api: StartApi, controller: Controller, scripted: Scripted, token: Token
) -> None:
    assert controller
    with start_api() as service, ThreadPoolExecutor(1) as pool:
        scripted.proceed.clear()
        answer = pool.submit(Asker(service.url, token("research")).complete)
        eventually(lambda: bool(scripted.seen), SECONDS, "the request runs")
        service.process.send_signal(signal.SIGTERM)
        scripted.proceed.set()
        assert answer.result().status_code == 200
        assert service.process.wait(SECONDS) in (0, -signal.SIGTERM)


def test_streams_pass_as_they_come(ada: Asker, controller: Controller, scripted: Scripted) -> None:
    assert controller
    scripted.answer = (200, EVENTS, [b'data: {"choices": [{"text": "one "}]}\n\nda', b"ta: [DONE]\n\n"])
    scripted.proceed.clear()
    with ada.complete_streamed() as answer:
        parts = answer.iter_content(None)
        assert next(parts) == b'data: {"choices": [{"text": "one "}]}\n\n'
        scripted.proceed.set()
        assert b"".join(parts) == b"data: [DONE]\n\n"


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("options", "hidden"), [(None, True), ({"include_usage": False}, True), ({"include_usage": True}, False)]
)
def test_tokens_of_streams_are_counted(
    ada: Asker, api: Service, controller: Controller, scripted: Scripted, options: Any, hidden: bool
) -> None:
    assert controller
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}}\n\n'
    scripted.answer = (200, EVENTS, [b'data: {"choices": [{}]}\n\n', usage, b"data: [DONE]\n\n"])
    given = {"stream": True} | ({"stream_options": options} if options else {})
    answer = ada.complete(**given)
    assert (usage not in answer.content) == hidden
    assert answer.content.endswith(b"data: [DONE]\n\n")
    assert json.loads(scripted.seen[0][1])["stream_options"] == {"include_usage": True}
    eventually(lambda: metric(api, "inference_tokens_total", direction="out") == 7, SECONDS, "tokens are counted")


@pytest.mark.nightly
def test_a_stream_that_breaks_off_ends_with_an_error(ada: Asker, controller: Controller, scripted: Scripted) -> None:
    assert controller
    scripted.answer = (200, {**EVENTS, "Content-Length": "5000"}, [b'data: {"choices": [{}]}\n\n', b"break"])
    last = ada.complete(stream=True).text.rstrip().splitlines()[-1]
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "broken_stream"


@pytest.mark.nightly
def test_answers_that_break_off(ada: Asker, controller: Controller, scripted: Scripted) -> None:
    assert controller
    scripted.answer = (200, {"Content-Type": "application/json", "Content-Length": "5000"}, [b"{", b"break"])
    refused = ada.complete()
    assert (refused.status_code, refused.json()["status"]) == (502, "error")


def test_errors_of_the_model_server_pass(ada: Asker, controller: Controller, scripted: Scripted) -> None:
    assert controller
    error = b'{"error": {"message": "busy", "code": "queue_full"}}'
    headers = {"Content-Type": "application/json", "Retry-After": "7", "Set-Cookie": "a=b", "X-Inner": "1"}
    scripted.answer = (429, headers, [error])
    answer = ada.complete()
    assert (answer.status_code, answer.content, answer.headers["Retry-After"]) == (429, error, "7")
    assert not {"Set-Cookie", "X-Inner"} & set(answer.headers)
    enveloped = ada("POST", f"/v3/ml-hub/inference/{SCRIPTED}", {"prompt": "one"})
    assert (enveloped.status_code, enveloped.json()["message"], enveloped.headers["Retry-After"]) == (429, "busy", "7")


def test_headers_of_callers_stay_here(ada: Asker, controller: Controller, scripted: Scripted) -> None:
    assert controller
    own = {
        "X-Tapis-Token": ada.token,
        "Cookie": "a=b",
        "X-Forwarded-For": "1.2.3.4",
        "X-Anything": "1",
        "User-Agent": "me",
    }
    answer = ada("POST", f"/models/{SCRIPTED}", {"inputs": "one"}, headers=own)
    assert answer.status_code == 200
    (headers, body) = scripted.seen[0]
    known = {"host", "content-type", "content-length", "accept", "accept-encoding", "connection", "user-agent"}
    assert headers.keys() <= known
    assert headers["user-agent"] != "me"
    assert ada.token not in str(headers)
    assert json.loads(body) == {"inputs": "one"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"model": "scripted"',
        b'{"model": 1}',
        b'{"model": null}',
        b"{}",
        b'{"model": "scripted", "n": NaN}',
        b'{"model": "scripted", "n": 1e999}',
        b'{"model": "scripted", "prompt": "\\ud800"}',
        b'{"model": "scripted", "n": ' + b"9" * 5000 + b"}",
        b'{"model": "scripted", "n": ' + b"[" * 100_000 + b"}",
    ],
)
def test_bodies_that_cannot_be(ada: Asker, scripted: Scripted, controller: Controller, body: bytes) -> None:
    headers = {"Authorization": f"Bearer {ada.token}", "Content-Type": "application/json"}
    answer = requests.post(f"{ada.url}/v1/completions", data=body, headers=headers, timeout=60)
    assert (answer.status_code, answer.json()["status"]) == (400, "error")
    assert not scripted.seen
    assert not controller.made


@pytest.mark.nightly
def test_a_body_that_is_too_long(start_api: StartApi, controller: Controller, token: Token) -> None:
    with start_api(INFERENCE_BODY_BYTES="2000") as service:
        answer = Asker(service.url, token("research")).complete(prompt="x" * 2000)
        assert (answer.status_code, answer.json()["status"]) == (413, "error")
    assert not controller.made


@pytest.mark.parametrize(
    "name", ["../healthz", "\ud800", "a\nb", "x" * 5000, "Research/Words", f"{WORDS}/", f"{SCRIPTED}\0"]
)
def test_ids_that_are_none(ada: Asker, name: str) -> None:
    answer = ada("POST", "/v1/completions", {"model": name, "prompt": "one"})
    assert (answer.status_code, answer.json()["status"]) == (404, "error")


@pytest.mark.nightly
def test_the_api_answers_as_documented(api: Service, token: Token) -> None:
    check_contract(f"{api.url}/v3/ml-hub/inference/openapi.json", token("none"))


@pytest.mark.parametrize(
    ("verb", "what"),
    [
        ("get", "secrets"),
        ("create", "pods"),
        ("create", "pods/exec"),
        ("patch", "deployments"),
        ("patch", "deployments/inference"),
        ("delete", f"deployments/{DEPLOYMENT}"),
        ("patch", "deployments/inference --subresource=scale"),
    ],
)
def test_its_account_may_do_no_more(api_server: ApiServer, account: Path, verb: str, what: str) -> None:
    options = ("--kubeconfig", str(account), "-n", NAMESPACE)
    answer = api_server.kubectl(*options, "auth", "can-i", verb, *what.split(), check=False)
    assert answer.strip() == "no"
