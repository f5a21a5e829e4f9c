"""Tapis' unmodified clients, generated from its own description, call every route of the service."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from strata_bench.tapis_javascript import run_javascript
from strata_bench.token_issuer import Issuer

from .conftest import StartHub
from .fake_hub import CARD, DATASET, DATASET_INFO, FILES, INFO, MODEL, SHA, furnished, running_hub

SCRIPT = """
const clients = {
  models: require("@tapis/tapis-typescript-mlhub-models"),
  datasets: require("@tapis/tapis-typescript-mlhub-datasets"),
};
const { BASE, CALLS, TOKEN } = process.env;
const api = (kind, apiKey) => {
  const { Configuration, ModelsApi, DatasetsApi } = clients[kind];
  return new (ModelsApi || DatasetsApi)(new Configuration({ basePath: BASE, apiKey }));
};
(async () => {
  const output = {};
  for (const [kind, method, parameters] of JSON.parse(CALLS)) {
    output[method] = await api(kind, TOKEN)[method](parameters);
  }
  // the errors that the clients' types describe
  const refused = await api("models", TOKEN).getModelInferenceServer({ modelId: process.env.MODEL }).catch((e) => e);
  output.inference = clients.models.RespModelServerErrorFromJSON(await refused.json());
  output.server = await api("models", process.env.MEMBER).getModelInferenceServer({ modelId: process.env.MODEL });
  const without = await api("datasets").listDatasets().catch((e) => e);
  output.unauthorized = [without.status, clients.datasets.RespErrorFromJSON(await without.json())];
  console.log(JSON.stringify(output));
})();
"""
Holds = Callable[[dict[str, Any]], bool]
LISTS: dict[str, tuple[str, dict[str, str], Holds]] = {
    "listModels": ("models", {}, lambda _: True),
    "listModelsByAuthor": ("models", {"authorId": "google"}, lambda r: r["author"] == "google"),
    "listModelsByTask": ("models", {"taskType": "translation"}, lambda r: r["pipeline_tag"] == "translation"),
    "listModelsByDataset": (
        "models", {"dataset": "EleutherAI/pile"}, lambda r: "EleutherAI/pile" in r["datasets"],
    ),
    "listModelsByLibrary": ("models", {"libraryName": "timm"}, lambda r: r["library_name"] == "timm"),
    "listModelsByLanguage": ("models", {"languageName": "fi"}, lambda r: "fi" in r["languages"]),
    "listModelsByQuery": ("models", {"query": "google/flan-t5"}, lambda r: r["id"].startswith("google/flan-t5")),
    "listDatasets": ("datasets", {}, lambda _: True),
    "listDatasetsByAuthor": ("datasets", {"authorId": "openai"}, lambda r: r["author"] == "openai"),
    "listDatasetsByTask": ("datasets", {"taskType": "translation"}, lambda r: "translation" in r["task_categories"]),
    "listDatasetsByLanguage": ("datasets", {"languageName": "fi"}, lambda r: "fi" in r["languages"]),
    "listDatasetsByQuery": ("datasets", {"query": "openai/gsm"}, lambda r: r["id"] == "openai/gsm8k"),
    "listDatasetsBySizeCategory": (
        "datasets", {"sizeCategory": "10K<n<100K"}, lambda r: "10K<n<100K" in r["size_categories"],
    ),
}  # fmt: skip
SERVER = "https://api.example.org/v3/ml-hub/inference"
ONE = ("getModel", "downloadModel", "getModelCard", "getDataset", "downloadDataset", "getDatasetCard")


def calls() -> list[tuple[str, str, dict[str, str]]]:
    """Kind, method and parameters of each call."""
    cases = [(kind, method, parameters) for method, (kind, parameters, _) in LISTS.items()]
    for method in ONE:
        kind, parameter, name = (
            ("models", "modelId", MODEL) if "Model" in method else ("datasets", "datasetId", DATASET)
        )
        cases.append((kind, method, {parameter: name}))
    return cases


@pytest.fixture(scope="module")
def answers(start_hub: StartHub, hub_environment: dict[str, str], issuer: Issuer) -> dict[str, Any]:
    """What the clients understood, by method."""
    with running_hub(furnished()) as fake:
        settings = {
            "ML_HUB_HUB_ENDPOINT": fake.url,
            "ML_HUB_HUB_FRESH_SECONDS": "0",
            "ML_HUB_INFERENCE_URL": SERVER,
            "ML_HUB_INFERENCE_MODELS": json.dumps({MODEL: ["research"]}),
        }
        with start_hub({**hub_environment, **settings}) as service:
            tokens = {"TOKEN": issuer.token(groups=["/tenants/teaching"])}
            tokens["MEMBER"] = issuer.token(groups=["/tenants/research"])
            variables = {"BASE": service.url, "MODEL": MODEL, "CALLS": json.dumps(calls()), **tokens}
            done = run_javascript(SCRIPT, **variables)
    assert done.returncode == 0, done.stderr
    output: dict[str, Any] = json.loads(done.stdout)
    return output


@pytest.mark.parametrize("method", LISTS)
def test_lists_are_objects_by_id(
    answers: dict[str, Any], catalogue: list[dict[str, Any]], datasets: list[dict[str, Any]], method: str
) -> None:
    kind, _, holds = LISTS[method]
    expected = [r for r in (catalogue if kind == "models" else datasets) if holds(r)][:100]
    answer = answers[method]
    assert (answer["status"], bool(answer["message"]), answer["version"]) == ("success", True, "3")
    assert list(answer["result"]) == [record["id"] for record in expected]
    identifier = "model_id" if kind == "models" else "dataset_id"
    for record, entry in zip(expected, answer["result"].values(), strict=True):
        fields = ("author", "downloads", "tags", "created_at", "last_modified", "library_name", "pipeline_tag")
        known = {name: record[name] for name in fields if record.get(name) is not None and name in entry}
        assert {identifier: record["id"], "_private": False, "gated": record.get("gated", False), **known}.items() <= (
            entry.items()
        )
        assert {"downloads", "tags"} <= known.keys()


def test_details(answers: dict[str, Any]) -> None:
    model, dataset = answers["getModel"]["result"], answers["getDataset"]["result"]
    assert (model["model_id"], model["sha"], model["repository_content"]) == (MODEL, SHA, FILES)
    assert (model["card_data"], model["config"]) == (INFO["cardData"], INFO["config"])
    assert (model["widget_data"], model["transformers_info"]) == (INFO["widgetData"], INFO["transformersInfo"])
    assert (dataset["dataset_id"], dataset["sha"]) == (DATASET, DATASET_INFO["sha"])
    assert dataset["description"]
    assert dataset["paperswithcode_id"] == "gsm8k"


def test_downloads_and_cards(answers: dict[str, Any]) -> None:
    model, dataset = answers["downloadModel"]["result"], answers["downloadDataset"]["result"]
    assert (model["model_id"], model["sha"], list(model["download_links"])) == (MODEL, SHA, FILES)
    assert dataset["download_links"]["README.md"].endswith(f"/datasets/{DATASET}/resolve/{dataset['sha']}/README.md")
    assert answers["getModelCard"]["result"] == {
        "model_metadata": INFO["cardData"],
        "model_card": CARD.partition("---\n\n")[2],
    }
    assert answers["getDatasetCard"]["result"]["dataset_card"] == "# GSM8K\n"


def test_members_are_shown_where_to_ask_a_model(answers: dict[str, Any]) -> None:
    assert answers["server"]["status"] == "success"
    assert answers["server"]["result"] == {
        "model_id": MODEL,
        "inference_endpoint": f"{SERVER}/{MODEL}",
        "prompt_example": INFO["widgetData"],
        "transformers_info": INFO["transformersInfo"],
    }


def test_errors_are_those_of_the_clients_types(answers: dict[str, Any]) -> None:
    assert answers["inference"]["status"] == "error"
    assert answers["inference"]["result"] == {
        "model_id": MODEL,
        "inference_server_possible": True,
        "transformers_info": INFO["transformersInfo"],
    }
    status, body = answers["unauthorized"]
    assert (status, body["status"]) == (401, "error")
    assert "needs a token" in body["message"]
