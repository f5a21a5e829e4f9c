"""The catalogue over HTTP, on a real PostgreSQL, compared with the file that was loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
import requests

from strata.verify.api import envelope
from strata_bench.service_processes import Service, counted

Get = Callable[..., requests.Response]
Catalogue = list[dict[str, Any]]


def ids(response: requests.Response) -> list[str]:
    return list(envelope(response)["result"])


def assert_error(response: requests.Response, status: int) -> Any:
    """Its message."""
    body = envelope(response, status)
    assert body["metadata"]["request_id"] == response.headers["X-Request-ID"]
    assert body["result"] is None
    return body["message"]


def test_top_100_by_downloads(get: Get, catalogue: Catalogue) -> None:
    response = get("/models")
    assert len(catalogue) > 100
    assert ids(response) == [record["id"] for record in catalogue[:100]]
    assert response.json()["metadata"].keys() == {"count", "next_cursor"}


def test_cursors_walk_through_every_model_once(get: Get, catalogue: Catalogue) -> None:
    seen: list[str] = []
    parameters: dict[str, Any] = {"limit": 40}
    for _ in range(10):
        response = get("/models", **parameters)
        seen += ids(response)
        if "next_cursor" not in response.json()["metadata"]:
            break
        parameters["cursor"] = response.json()["metadata"]["next_cursor"]
    assert seen == [record["id"] for record in catalogue]


@pytest.mark.parametrize(
    ("route", "parameter", "value", "holds"),
    [
        ("authors", "author", "google", lambda r, v: r["author"] == v),
        ("tasks", "task", "text2text-generation", lambda r, v: r["pipeline_tag"] == v),
        ("libraries", "library", "diffusers", lambda r, v: r["library_name"] == v),
        ("languages", "language", "fi", lambda r, v: v in r["languages"]),
        ("trained_datasets", "dataset", "EleutherAI/pile", lambda r, v: v in r["datasets"]),
    ],
)
def test_filters(
    get: Get, catalogue: Catalogue, route: str, parameter: str, value: str, holds: Callable[[Any, str], bool]
) -> None:
    expected = [r["id"] for r in catalogue if holds(r, value)][:100]
    assert expected
    assert ids(get("/models", **{parameter: value})) == expected
    assert ids(get(f"/models/{route}/{value}")) == expected


def test_filters_narrow_each_other(get: Get, catalogue: Catalogue) -> None:
    expected = [r["id"] for r in catalogue if r["author"] == "google" and "t5" in r["tags"]]
    assert expected
    assert ids(get("/models", author="google", search="t5")) == expected
    assert ids(get("/models/authors/google", search="t5", limit=1)) == expected[:1]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("flan t5 LARGE", "google/flan-t5-large"),
        ("vlt5 keywords", "Voicelab/vlt5-base-keywords"),
        ("grammarly coed", "grammarly/coedit-large"),
        ("google/flan-t5-la", "google/flan-t5-large"),
        ("finnish", "TurkuNLP/bert-base-finnish-cased-v1"),
    ],
)
def test_search_finds_words_that_begin_so(get: Get, query: str, expected: str) -> None:
    assert expected in ids(get(f"/models/search/{query}"))
    assert expected in ids(get(f"/search/{query}/models"))
    assert expected in ids(get("/models", search=query))


@pytest.mark.parametrize(
    "query", ["no such words", "t5 & !bert", "'; DROP TABLE models; --", ":*", "²", "<->", "\\", "a" * 256]
)
def test_search_takes_any_text(get: Get, query: str) -> None:
    assert get("/models", search=query).status_code == 200


@pytest.mark.parametrize("path", ["authors/nobody", "languages/tlh", "trained_datasets/none/such", "search/---"])
def test_nothing_found_is_an_empty_list(get: Get, path: str) -> None:
    response = get(f"/models/{path}")
    assert ids(response) == []
    assert response.json()["metadata"] == {"count": 0}


def test_an_entry_of_a_list_has_what_is_known(get: Get, catalogue: Catalogue) -> None:
    record = catalogue[0]
    entry = envelope(get("/models", limit=1))["result"][record["id"]]
    assert {"model_id": record["id"], **{k: v for k, v in record.items() if k != "id"}}.items() <= entry.items()
    # what no type of the clients may be null is left out
    assert entry.keys() - record.keys() == {"model_id", "disabled", "gated", "private"}


@pytest.mark.parametrize("model_id", ["google/flan-t5-large", "Voicelab/vlt5-base-keywords", "grammarly/coedit-large"])
def test_one_model(get: Get, catalogue: Catalogue, model_id: str) -> None:
    (record,) = [r for r in catalogue if r["id"] == model_id]
    for path in (model_id, model_id.replace("/", "%2F")):
        body = envelope(get(f"/models/{path}"))
        assert {k: v for k, v in record.items() if k != "id"}.items() <= body["result"].items()
        assert body["result"]["model_id"] == model_id
        assert body["metadata"] == {"source": "catalogue"}


@pytest.mark.parametrize("model_id", ["nobody/none", "gpt-none", "google/flan-t5-large/more", "ü/模型", "a b", ".."])
def test_unknown_models_are_404(get: Get, model_id: str) -> None:
    assert model_id in assert_error(get(f"/models/{quote(model_id, safe='').replace('.', '%2E')}"), 404)


@pytest.mark.parametrize(
    ("model_id", "possible", "loader"),
    [
        ("google/flan-t5-large", True, "AutoModelForSeq2SeqLM"),
        ("sentence-transformers/all-MiniLM-L6-v2", True, "AutoModel"),
        ("timm/mobilenetv3_small_100.lamb_in1k", False, None),
    ],
)
def test_inference_is_possible_or_not(get: Get, model_id: str, possible: bool, loader: str | None) -> None:
    for path in (model_id, model_id.replace("/", "%2F")):
        body = envelope(get(f"/models/{path}/inference"), 404)
        assert body["result"]["model_id"] == model_id
        assert body["result"]["inference_server_possible"] is possible
        assert body["result"]["transformers_info"]["auto_model"] == loader
        assert ("could be provisioned" in body["message"]) is possible


def test_inference_of_an_unknown_model_is_404(get: Get) -> None:
    assert "nobody/none" in assert_error(get("/models/nobody/none/inference"), 404)


def test_a_search_may_end_with_inference(get: Get) -> None:
    assert ids(get("/models/search/inference")) == ids(get("/models", search="inference"))


@pytest.mark.parametrize(
    ("parameters", "where"),
    [
        ({"limit": 0}, "query.limit"),
        ({"limit": 101}, "query.limit"),
        ({"limit": "many"}, "query.limit"),
        ({"cursor": "nonsense"}, "query.cursor"),
        ({"cursor": "WzEsIDJd"}, "query.cursor"),
        ({"cursor": "ü"}, "query.cursor"),
        ({"author": ""}, "query.author"),
        ({"author": "a\0b"}, "query.author"),
        ({"search": "a" * 257}, "query.search"),
    ],
)
def test_wrong_values_are_named(get: Get, parameters: dict[str, Any], where: str) -> None:
    (message,) = assert_error(get("/models", **parameters), 400)
    assert message.startswith(f"{where}: ")


def test_a_nul_character_in_a_path_is_refused(get: Get) -> None:
    assert_error(get("/models/a%00b"), 400)


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("/authors", lambda r: [r["author"]]),
        ("/tasks", lambda r: [r["pipeline_tag"]]),
        ("/libraries", lambda r: [r["library_name"]]),
        ("/languages", lambda r: r["languages"]),
    ],
)
def test_names_with_counts(get: Get, catalogue: Catalogue, path: str, values: Callable[[Any], list[str]]) -> None:
    counts = Counter(v for record in catalogue for v in values(record) if v is not None)
    expected = sorted(counts.items(), key=lambda x: (-x[1], x[0]))
    first = envelope(get(path, limit=3))
    assert list(first["result"].items()) == expected[:3]
    rest = envelope(get(path, cursor=first["metadata"]["next_cursor"]))
    assert list(rest["result"].items()) == expected[3:103]


def test_paths_and_methods_that_do_not_exist(get: Get, hub: Service) -> None:
    assert "openapi.json" in assert_error(get("/nothing"), 404)
    assert_error(requests.post(f"{hub.url}/v3/ml-hub/models", timeout=60), 405)


def test_openapi_document_describes_what_is_served(hub: Service) -> None:
    document = requests.get(f"{hub.url}/v3/ml-hub/openapi.json", timeout=60).json()
    below = {path.removeprefix("/v3/ml-hub") for path in document["paths"]}
    assert below >= {
        "/models", "/models/{model_id}", "/models/{model_id}/inference", "/models/authors/{author_id}",
        "/models/search/{query}", "/search/{query}/models", "/models/tasks/{task_type}",
        "/models/trained_datasets/{dataset_id}", "/models/libraries/{library_name}",
        "/models/languages/{language_name}", "/download_model/{model_id}", "/model_card/{model_id}",
        "/datasets", "/datasets/{dataset_id}", "/datasets/authors/{author_id}", "/datasets/search/{query}",
        "/datasets/tasks/{task_type}", "/datasets/languages/{language_name}", "/datasets/size_categories/{category}",
        "/datasets/size-categories/{category}", "/download_dataset/{dataset_id}", "/dataset_card/{dataset_id}",
        "/authors", "/tasks", "/libraries", "/languages",
    }  # fmt: skip
    for path, methods in document["paths"].items():
        if path.startswith("/v3/ml-hub"):
            assert methods["get"]["security"], path
            error = methods["get"]["responses"]["401"]["content"]["application/json"]["schema"]
            assert error == {"$ref": "#/components/schemas/ErrorEnvelope"}, path
    text = str(document)
    for name in {part.split("'")[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in document["components"]["schemas"]


def test_metrics_are_on_a_port_of_their_own(get: Get, hub: Service, metrics_url: str) -> None:
    get("/models/google/flan-t5-large")
    assert requests.get(f"{hub.url}/metrics", timeout=60).status_code == 404
    count = 'ml_hub_http_requests_total{method="GET",route="/models/{model_id:path}",status="200"}'
    text = counted(metrics_url, count)
    assert "ml_hub_http_request_duration_seconds_bucket" in text
    assert "ml_hub_database_connections_limit 5.0" in text
    assert "flan-t5-large" not in text


def test_request_ids_are_kept_when_they_are_harmless(hub: Service) -> None:
    kept = requests.get(f"{hub.url}/healthz", headers={"X-Request-ID": "abc-1"}, timeout=60)
    assert kept.headers["X-Request-ID"] == "abc-1"
    made = requests.get(f"{hub.url}/healthz", headers={"X-Request-ID": "a b {}"}, timeout=60)
    assert made.headers["X-Request-ID"] != "a b {}"
