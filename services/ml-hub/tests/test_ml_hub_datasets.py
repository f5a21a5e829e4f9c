"""Datasets over HTTP, on a real PostgreSQL, compared with the file that was loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import requests

from strata.verify.api import envelope

Get = Callable[..., requests.Response]
Datasets = list[dict[str, Any]]


def ids(response: requests.Response) -> list[str]:
    return list(envelope(response)["result"])


def test_most_downloaded_first_and_page_by_page(get: Get, datasets: Datasets) -> None:
    assert ids(get("/datasets")) == [record["id"] for record in datasets[:100]]
    first = envelope(get("/datasets", limit=30))
    rest = envelope(get("/datasets", cursor=first["metadata"]["next_cursor"]))
    assert [*first["result"], *rest["result"]] == [record["id"] for record in datasets]


@pytest.mark.parametrize(
    ("route", "parameter", "value", "holds"),
    [
        ("authors", "author", "nyu-mll", lambda r, v: r["author"] == v),
        ("tasks", "task", "summarization", lambda r, v: v in r["task_categories"]),
        ("languages", "language", "fi", lambda r, v: v in r["languages"]),
        ("size_categories", "size_category", "10K<n<100K", lambda r, v: v in r["size_categories"]),
        ("size-categories", "size_category", "1M<n<10M", lambda r, v: v in r["size_categories"]),
    ],
)
def test_filters(
    get: Get, datasets: Datasets, route: str, parameter: str, value: str, holds: Callable[[Any, str], bool]
) -> None:
    expected = [r["id"] for r in datasets if holds(r, value)]
    assert 0 < len(expected) < len(datasets)
    assert ids(get("/datasets", **{parameter: value})) == expected
    assert ids(get(f"/datasets/{route}/{value}")) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [("squad v2", "rajpurkar/squad_v2"), ("openai/gsm", "openai/gsm8k"), ("handwritten digits", "ylecun/mnist")],
)
def test_search_finds_names_and_descriptions(get: Get, query: str, expected: str) -> None:
    assert expected in ids(get(f"/datasets/search/{query}"))
    assert expected in ids(get(f"/search/{query}/datasets"))
    assert ids(get("/datasets", search=query, author="nobody")) == []


@pytest.mark.parametrize("dataset_id", ["rajpurkar/squad", "ILSVRC/imagenet-1k"])
def test_one_dataset(get: Get, datasets: Datasets, dataset_id: str) -> None:
    (record,) = [r for r in datasets if r["id"] == dataset_id]
    for path in (dataset_id, dataset_id.replace("/", "%2F")):
        dataset = envelope(get(f"/datasets/{path}"))["result"]
        assert {"dataset_id": dataset_id, **{k: v for k, v in record.items() if k != "id"}}.items() <= dataset.items()


def test_unknown_datasets_are_404(get: Get) -> None:
    body = envelope(get("/datasets/nobody/none"), 404)
    assert "/v3/ml-hub/datasets?search=" in body["message"]


@pytest.mark.parametrize("route", ["download_model", "model_card", "download_dataset", "dataset_card"])
def test_without_a_hub_there_are_no_cards_and_files(get: Get, route: str) -> None:
    known = "rajpurkar/squad" if "dataset" in route else "google/flan-t5-large"
    assert "this site has no hub" in envelope(get(f"/{route}/{known}"), 404)["message"]
    assert "there is no" in envelope(get(f"/{route}/nobody/none"), 404)["message"]
