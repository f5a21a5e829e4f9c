"""Details, cards and files, which the service reads from a hub and stores."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from strata.site.secrets import pki
from strata.verify.api import envelope
from strata_bench.service_processes import http_server
from strata_bench.services import PostgreSQL
from strata_bench.token_issuer import Issuer

from .conftest import StartHub
from .fake_hub import (
    CARD,
    DATASET,
    DATASET_INFO,
    DATASET_SHA,
    FILES,
    INFO,
    MODEL,
    SHA,
    UNLISTED,
    Answer,
    FakeHub,
    furnished,
    json_answer,
    running_hub,
    text_answer,
)

PUBLIC = "https://hub.lab.strata.test"
Get = Callable[[str], requests.Response]
Serve = Callable[..., AbstractContextManager[Get]]


@pytest.fixture
def fake() -> Iterator[FakeHub]:
    with running_hub(furnished()) as hub:
        yield hub


@pytest.fixture
def serve(
    fake: FakeHub, start_hub: StartHub, hub_environment: dict[str, str], postgresql: PostgreSQL, issuer: Issuer
) -> Serve:
    """`with serve(fresh_seconds="0") as get:` a service that reads from the hub, and has stored nothing of it."""
    postgresql.sql("DELETE FROM fetched", hub_environment["ML_HUB_DATABASE_NAME"])

    @contextmanager
    def start(**settings: str) -> Iterator[Get]:
        chosen = {"endpoint": f"{fake.url}/", "public_url": f"{PUBLIC}/", "pause_seconds": "0", **settings}
        variables = {f"ML_HUB_HUB_{name.upper()}": value for name, value in chosen.items()}
        with start_hub({**hub_environment, **variables}) as service:
            headers = {"X-Tapis-Token": issuer.token()}
            yield lambda path: requests.get(f"{service.url}/v3/ml-hub{path}", headers=headers, timeout=60)

    return start


def result(response: requests.Response) -> Any:
    return envelope(response)["result"]


def test_details_are_the_hub_s_and_figures_the_catalogue_s(serve: Serve, catalogue: list[dict[str, Any]]) -> None:
    (record,) = [r for r in catalogue if r["id"] == MODEL]
    with serve() as get:
        body = envelope(get(f"/models/{MODEL}"))
        inference = envelope(get(f"/models/{MODEL}/inference"), 404)
    model = body["result"]
    assert (model["model_id"], model["downloads"]) == (MODEL, record["downloads"])
    assert (model["sha"], model["repository_content"]) == (SHA, FILES)
    assert (model["card_data"], model["config"]) == (INFO["cardData"], INFO["config"])
    assert model["widget_data"] == INFO["widgetData"]
    assert model["transformers_info"] == INFO["transformersInfo"]
    assert "model_index" not in model
    assert (body["metadata"]["source"], body["metadata"]["stale"]) == ("hub", False)
    assert inference["result"]["transformers_info"]["processor"] == "AutoTokenizer"


def test_links_lead_to_the_files_of_the_commit_at_the_public_name(serve: Serve) -> None:
    with serve() as get:
        model = result(get(f"/download_model/{MODEL.replace('/', '%2F')}"))
        dataset = result(get(f"/download_dataset/{DATASET}"))
    base = f"{PUBLIC}/{MODEL}/resolve/{SHA}"
    assert (model["model_id"], model["sha"]) == (MODEL, SHA)
    assert model["download_links"] == {file: f"{base}/{file.replace(' ', '%20')}" for file in FILES}
    assert dataset["download_links"]["main/test-00000-of-00001.parquet"] == (
        f"{PUBLIC}/datasets/{DATASET}/resolve/{DATASET_SHA}/main/test-00000-of-00001.parquet"
    )
    assert {"dataset_id", "created_at", "last_modified"} <= dataset.keys()


def test_links_lead_to_the_endpoint_where_there_is_no_public_name(serve: Serve, fake: FakeHub) -> None:
    with serve(public_url=fake.url) as get:
        links = result(get(f"/download_model/{MODEL}"))["download_links"]
    assert links["config.json"] == f"{fake.url}/{MODEL}/resolve/{SHA}/config.json"


def test_cards_have_their_metadata_apart(serve: Serve) -> None:
    with serve() as get:
        model, dataset = result(get(f"/model_card/{MODEL}")), result(get(f"/dataset_card/{DATASET}"))
    assert model == {"model_metadata": INFO["cardData"], "model_card": CARD.partition("---\n\n")[2]}
    assert dataset == {"dataset_metadata": DATASET_INFO["cardData"], "dataset_card": "# GSM8K\n"}


def test_a_repository_of_the_hub_alone_is_found(serve: Serve) -> None:
    with serve() as get:
        model = result(get(f"/models/{UNLISTED}"))
        assert "the hub has no card" in envelope(get(f"/model_card/{UNLISTED}"), 404)["message"]
        assert envelope(get("/models/nobody/none"), 404)["result"] is None
    # a number of downloads that is none spoils nothing else
    assert (model["model_id"], model["author"], model["downloads"]) == (UNLISTED, "our-group", 0)
    assert model["sha"] == SHA


def test_what_was_read_is_not_read_again_and_outlives_the_hub(serve: Serve, fake: FakeHub) -> None:
    paths = (f"/models/{MODEL}", f"/model_card/{MODEL}", f"/download_model/{MODEL}")
    with serve() as get:
        first = [result(get(path)) for path in paths]
        asked = len(fake.asked)
        assert [result(get(path)) for path in paths] == first
        assert len(fake.asked) == asked
    fake.down.set()
    with serve(fresh_seconds="0", pause_seconds="3600") as get:
        later = [envelope(get(path)) for path in paths]
        assert [body["result"] for body in later] == first
        assert {body["metadata"]["stale"] for body in later} == {True}
        # one request found it down: the others did not wait for it
        assert len(fake.asked) == asked + 1


def test_users_who_ask_at_once_share_one_read(serve: Serve, fake: FakeHub) -> None:
    with serve() as get, ThreadPoolExecutor(8) as pool:
        commits = list(pool.map(lambda _: result(get(f"/models/{MODEL}"))["sha"], range(8)))
    assert commits == [SHA] * 8
    assert len(fake.asked) == 1


def test_the_hub_s_certificate_is_verified(serve: Serve, tmp_path: Path) -> None:
    authority, key = pki.create_authority("mirror")
    certificate = pki.issue(authority, key, "hub", [], ["127.0.0.1"])
    for name, text in (("ca", authority), ("server", certificate.certificate + certificate.private_key)):
        (tmp_path / f"{name}.pem").write_text(text)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "server.pem")
    with http_server(lambda _: (200, {}, INFO), tls) as url:
        with serve(endpoint=url) as get:
            assert envelope(get(f"/models/{MODEL}"))["metadata"]["source"] == "catalogue"
        with serve(endpoint=url, ca_file=str(tmp_path / "ca.pem")) as get:
            assert result(get(f"/models/{MODEL}"))["sha"] == SHA


def test_a_hub_that_is_down_leaves_the_catalogue(serve: Serve, fake: FakeHub) -> None:
    fake.down.set()
    with serve() as get:
        body = envelope(get(f"/models/{MODEL}"))
        assert body["metadata"] == {"source": "catalogue", "stale": True}
        assert body["result"].keys() & {"sha", "repository_content"} == set()
        for path in (f"/model_card/{MODEL}", f"/download_model/{MODEL}", f"/models/{UNLISTED}"):
            response = get(path)
            assert "does not respond" in envelope(response, 503)["message"]
            assert response.headers["Retry-After"]
        fake.down.clear()
        assert result(get(f"/models/{MODEL}"))["sha"] == SHA


def test_the_hub_is_never_asked_as_the_user(serve: Serve, fake: FakeHub) -> None:
    with serve() as get:
        get(f"/model_card/{MODEL}")
    assert {authorization for _, authorization in fake.asked} == {None}


def test_a_gated_card_is_refused(serve: Serve, fake: FakeHub) -> None:
    fake.answers[f"/{MODEL}/resolve/main/README.md"] = (401, {"X-Error-Code": "GatedRepo"}, b"")
    fake.answers[f"/datasets/{DATASET}/resolve/main/README.md"] = (403, {}, b"")
    with serve() as get:
        for path in (f"/model_card/{MODEL}", f"/dataset_card/{DATASET}"):
            assert PUBLIC in envelope(get(path), 403)["message"]


@pytest.mark.parametrize(
    "name",
    [
        "..%2F..%2Fadmin",
        "a%2F..%2F..%2Fadmin",
        "%2Fapi",
        "a%2Fb%2Fc",
        "a%3Fx=1",
        "a%23b",
        "a%2F.git",
        "http:%2F%2Fx",
        "a%5Cb",
    ],
)  # fmt: skip
def test_only_names_of_repositories_reach_the_hub(serve: Serve, fake: FakeHub, name: str) -> None:
    with serve() as get:
        for route in ("models", "datasets", "model_card", "download_dataset"):
            envelope(get(f"/{route}/{name}"), 404)
    assert fake.asked == []


def test_a_redirect_to_another_server_is_not_followed(serve: Serve, fake: FakeHub) -> None:
    with running_hub(FakeHub(answers={"/secret": text_answer("inside")})) as inside:
        fake.answers[f"/{MODEL}/resolve/main/README.md"] = (302, {"Location": f"{inside.url}/secret"}, b"")
        with serve(pause_seconds="3600") as get:
            envelope(get(f"/model_card/{MODEL}"), 503)
            # one repository's fault closes no others
            assert result(get(f"/dataset_card/{DATASET}"))["dataset_card"] == "# GSM8K\n"
        assert inside.asked == []


@pytest.mark.parametrize(
    "answer",
    [
        text_answer("no JSON"),
        json_answer(["no object"]),
        text_answer("[" * 100_000),
        text_answer('{"sha": "' + "x" * 5_000_000 + '"}'),
    ],
    ids=["text", "list", "deep", "huge"],
)
def test_an_answer_that_is_not_a_hub_s_leaves_the_catalogue(serve: Serve, fake: FakeHub, answer: Answer) -> None:
    fake.answers[f"/api/models/{MODEL}"] = answer
    with serve() as get:
        assert envelope(get(f"/models/{MODEL}"))["metadata"]["source"] == "catalogue"


def test_strange_values_are_made_harmless(serve: Serve, fake: FakeHub) -> None:
    deep: Any = "end"
    for _ in range(500):
        deep = [deep]
    strange = {"text": "a\ud800b\0", "number": float("nan"), "deep": deep, "none": None}
    changed = {**INFO, "cardData": strange, "config": [], "siblings": {"a": 1}, "sha": 7, "transformersInfo": "x"}
    fake.answers[f"/api/models/{MODEL}"] = json_answer(changed)
    with serve() as get:
        model = result(get(f"/models/{MODEL}"))
        assert "siblings" not in model
        assert model["card_data"]["text"] == "a?b\0"
        assert (model["card_data"]["number"], model["card_data"]["none"]) == (None, None)
        assert json.dumps(model["card_data"]["deep"]).count("[") < 50
        assert model.keys() & {"config", "sha", "repository_content", "transformers_info"} == set()
        assert "has no files" in envelope(get(f"/download_model/{MODEL}"), 404)["message"]


def test_the_oldest_leaves_when_the_table_is_full(
    serve: Serve, postgresql: PostgreSQL, hub_environment: dict[str, str]
) -> None:
    with serve(cache_bytes="1500") as get:
        for path in (f"/models/{MODEL}", f"/datasets/{DATASET}", "/models/nobody/none"):
            get(path)
    left = postgresql.sql("SELECT id FROM fetched ORDER BY fetched_at", hub_environment["ML_HUB_DATABASE_NAME"])
    assert left.split() == [DATASET, "nobody/none"]
