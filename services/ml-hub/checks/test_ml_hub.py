"""The model hub, as users see it: from outside, over TLS, at its host name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests

from strata.catalogue.site_services import hub_server
from strata.models.site import Site
from strata.site.host_list import hosts_with
from strata.site.outputs import CloudOutputs
from strata.verify.api import Api, envelope
from strata.verify.pods import Kubectl, running_pods
from strata.verify.waiting import settled
from strata_services.ml_hub.service import API, AUDIENCE, DATABASE, SERVICE
from strata_services.ml_hub.settings import MlHub

if TYPE_CHECKING:
    from testinfra.host import Host

    from strata.site.context import SiteContext

T5_MODELS = ("Voicelab/vlt5-base-keywords", "google/flan-t5-large", "grammarly/coedit-large")
"""The models that the ML Hub's authors serve; the lab's catalogue holds them."""
READ_METRICS = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:9464/metrics').read().decode())"

Get = Callable[..., requests.Response]
Records = list[dict[str, Any]]


@pytest.fixture(scope="module")
def hub_model(site: Site) -> MlHub:
    """The model hub's entry in site.yaml."""
    hub = SERVICE.of(site)
    if hub is None:
        pytest.skip(f"site {site.name} has no platform.services.ml_hub")
    return hub


@pytest.fixture(scope="module")
def hub(site: Site, hub_model: MlHub, http: requests.Session) -> Api:
    """The model hub."""
    return Api(http, f"https://{hub_model.hostname}.{site.domain}")


@pytest.fixture(scope="module")
def token(hub_model: MlHub, issuer_token: Callable[[str], str]) -> str:
    """A token that the hub must accept."""
    assert hub_model
    return issuer_token(AUDIENCE.name)


@pytest.fixture(scope="module")
def get(hub: Api, token: str) -> Get:
    """`get("/models", limit=3)` below /v3/ml-hub, with a token."""

    def call(path: str, **parameters: str | int) -> requests.Response:
        return hub.get(f"/v3/ml-hub{path}", token, **parameters)

    return call


@pytest.fixture(scope="module")
def catalogue(context: SiteContext, hub_model: MlHub) -> dict[str, Records]:
    """Models and datasets of the catalogue's file, most downloaded first."""
    if hub_model.catalogue.file is None:
        pytest.skip("the catalogue comes from the Hugging Face API: there is no file to compare with")
    content = json.loads((Path(context.site_file).parent / hub_model.catalogue.file).read_text())
    # a list alone is one of models
    lists = {"models": content} if isinstance(content, list) else content
    return {
        kind: sorted(lists.get(kind, []), key=lambda r: (-r.get("downloads", 0), r["id"]))
        for kind in ("models", "datasets")
    }


@pytest.fixture(scope="module")
def models(catalogue: dict[str, Records]) -> Records:
    """The models of the catalogue's file."""
    return catalogue["models"]


@pytest.fixture(scope="module")
def datasets(catalogue: dict[str, Records]) -> Records:
    """The datasets of the catalogue's file."""
    if not catalogue["datasets"]:
        pytest.skip("the catalogue's file has no datasets")
    return catalogue["datasets"]


def ids(response: requests.Response) -> list[str]:
    """Ids of a list of models or datasets."""
    return list(envelope(response)["result"])


def of(record: dict[str, Any], field: str) -> list[Any]:
    """The values of a field, which may be a list."""
    value = record.get(field)
    return value if isinstance(value, list) else [value]


def having(records: Records, field: str, value: str) -> list[str]:
    """Ids of the first 100 whose field has the value."""
    return [record["id"] for record in records if value in of(record, field)][:100]


def a_value(records: Records, field: str) -> str:
    """One that the field has."""
    return str(next(value for record in records for value in of(record, field) if value))


def assert_error(response: requests.Response, status: int) -> None:
    """The one shape of errors."""
    body = envelope(response, status)
    assert body["message"]
    assert body["metadata"]["request_id"] == response.headers["X-Request-ID"]


@pytest.mark.parametrize("path", ["/models", "/models/google/flan-t5-large", "/datasets", "/model_card/a/b", "/tasks"])
def test_hub_refuses_without_a_token(hub: Api, path: str) -> None:
    """The model hub returns 401 with a challenge for a request without a token."""
    response = hub.get(f"/v3/ml-hub{path}")
    assert_error(response, 401)
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="ml-hub"'


def test_hub_refuses_a_changed_token(hub: Api, token: str) -> None:
    """The model hub returns 401 for a modified or malformed token."""
    head, body, signature = token.split(".")
    swapped = signature[-10:] + signature[10:-10] + signature[:10]
    for bad in (f"{head}.{body}.{swapped}", f"{head}.{body}.", "rubbish"):
        response = hub.get("/v3/ml-hub/models", bad)
        assert_error(response, 401)
        assert 'error="invalid_token"' in response.headers["WWW-Authenticate"]


@pytest.mark.parametrize("kind", ["models", "datasets"])
def test_hub_lists_the_most_downloaded(get: Get, catalogue: dict[str, Records], kind: str) -> None:
    """The model hub lists the 100 most downloaded models and datasets of the catalogue, in order."""
    assert ids(get(f"/{kind}")) == [m["id"] for m in catalogue[kind][:100]]


def test_hub_serves_the_same_at_the_api(
    site: Site, http: requests.Session, token: str, get: Get, hub_model: MlHub
) -> None:
    """The model hub serves the same at its path of the site's API, for Tapis' clients with their header."""
    assert hub_model
    response = http.get(
        f"https://{API.host(site)}/v3/ml-hub/models", headers={"X-Tapis-Token": token}, params={"limit": 3}, timeout=30
    )
    assert ids(response) == ids(get("/models", limit=3))


def test_hub_pages_through_all_models(get: Get, models: Records) -> None:
    """The cursors of GET /models page through every model exactly once."""
    identifiers: list[str] = []
    parameters: dict[str, str | int] = {"limit": 50}
    while True:
        body = envelope(get("/models", **parameters))
        identifiers += body["result"]
        following = body["metadata"].get("next_cursor")
        if following is None or len(identifiers) > len(models):
            break
        parameters["cursor"] = following
    assert identifiers == [m["id"] for m in models]


@pytest.mark.parametrize(
    ("route", "parameter", "field"),
    [
        ("authors", "author", "author"),
        ("tasks", "task", "pipeline_tag"),
        ("libraries", "library", "library_name"),
        ("languages", "language", "languages"),
        ("trained_datasets", "dataset", "datasets"),
    ],
)
def test_hub_filters(get: Get, models: Records, route: str, parameter: str, field: str) -> None:
    """Each filter of the model hub returns the models of the catalogue file that match, by route and by parameter."""
    value = a_value(models, field)
    expected = having(models, field, value)
    assert ids(get("/models", **{parameter: value})) == expected
    assert ids(get(f"/models/{route}/{value}")) == expected


@pytest.mark.parametrize(
    ("route", "field"),
    [
        ("authors", "author"),
        ("tasks", "task_categories"),
        ("languages", "languages"),
        ("size_categories", "size_categories"),
        ("size-categories", "size_categories"),
    ],
)
def test_hub_filters_datasets(get: Get, datasets: Records, route: str, field: str) -> None:
    """Each filter of datasets returns those of the catalogue file that match."""
    value = a_value(datasets, field)
    assert ids(get(f"/datasets/{route}/{value}")) == having(datasets, field, value)


def test_hub_searches(get: Get, models: Records) -> None:
    """The model hub finds a model by prefixes of the words in its name, at both spellings of the route."""
    known = {m["id"] for m in models}
    for model_id in (i for i in T5_MODELS if i in known):
        words = model_id.replace("/", " ").replace("-", " ").lower()
        assert model_id in ids(get(f"/models/search/{words[:-2]}"))
        assert model_id in ids(get(f"/search/{words[:-2]}/models"))
    assert ids(get("/models", search="nosuchwordanywhere")) == []


def test_hub_shows_one_model(get: Get, models: Records) -> None:
    """The model hub returns every field of a model in the catalogue file, by its name with a slash or with %2F."""
    for record in [m for m in models if m["id"] in T5_MODELS] or models[:1]:
        for path in (record["id"], record["id"].replace("/", "%2F")):
            model = envelope(get(f"/models/{path}"))["result"]
            assert {"model_id": record["id"], **{k: v for k, v in record.items() if k != "id"}}.items() <= model.items()


def test_hub_shows_one_dataset(get: Get, datasets: Records) -> None:
    """The model hub returns every field of a dataset in the catalogue file."""
    record = datasets[0]
    dataset = envelope(get(f"/datasets/{record['id']}"))["result"]
    assert {"dataset_id": record["id"], **{k: v for k, v in record.items() if k != "id"}}.items() <= dataset.items()


def test_hub_reads_cards_and_files_where_the_site_has_a_hub(
    get: Get, site: Site, hub_model: MlHub, models: Records
) -> None:
    """Cards and links are those of the site's Hugging Face endpoint; without one, the model hub returns 404."""
    endpoint = hub_model.catalogue.hub or hub_server(site)
    model = next((i for i in T5_MODELS if i in {m["id"] for m in models}), models[0]["id"])
    for route in ("model_card", "download_model"):
        response = get(f"/{route}/{model}")
        if endpoint is None:
            assert_error(response, 404)
        else:  # the endpoint may hold another model in its place, or be gone
            assert response.status_code in (200, 403, 404, 503), response.text


def test_hub_reports_whether_a_model_can_be_asked(get: Get, models: Records) -> None:
    """GET /models/{model_id}/inference reports whether an inference server could run a model."""
    known = {m["id"] for m in models}
    for model_id in (i for i in T5_MODELS if i in known):
        result = envelope(get(f"/models/{model_id}/inference"), 404)["result"]
        assert (result["model_id"], result["inference_server_possible"]) == (model_id, True)


def test_hub_knows_no_such_model(get: Get) -> None:
    """The model hub returns 404 and 400 in its error format for an unknown model and a value that cannot be."""
    assert_error(get("/models/nobody/no-such-model"), 404)
    assert_error(get("/models", limit=0), 400)


@pytest.mark.parametrize(
    ("path", "field"),
    [("/authors", "author"), ("/tasks", "pipeline_tag"), ("/libraries", "library_name"), ("/languages", "languages")],
)
def test_hub_counts_names(get: Get, models: Records, path: str, field: str) -> None:
    """The model hub lists authors, tasks, libraries and languages with their numbers of models."""
    counts = envelope(get(path))["result"]
    assert counts
    for name, count in counts.items():
        assert count == sum(name in of(m, field) for m in models), name


def test_hub_describes_itself(hub: Api) -> None:
    """The model hub serves its OpenAPI document."""
    document = hub.get("/v3/ml-hub/openapi.json").json()
    assert document["openapi"].startswith("3.")
    assert {"/v3/ml-hub/models/{model_id}", "/v3/ml-hub/datasets", "/v3/ml-hub/authors"} <= document["paths"].keys()


def test_pages_lead_to_the_login(hub: Api, hub_model: MlHub, site: Site, http: requests.Session) -> None:
    """The pages of models and datasets lead a browser without a session to the site's issuer."""
    answer = http.get(f"https://{hub_model.hostname}.{site.domain}/models", allow_redirects=False, timeout=30)
    assert answer.status_code == 303
    assert "client_id=ml-hub-login" in answer.headers["Location"]
    assert hub.get("/style.css").status_code == 200


def test_hub_is_healthy(hub: Api) -> None:
    """The model hub reports that it is alive, and ready with its database."""
    for path in ("/healthz", "/readyz"):
        response = hub.get(path)
        assert (response.status_code, response.json()) == (200, {"status": "ok"})


def test_metrics_stay_inside(hub: Api, get: Get, kubectl: Kubectl, site: Site) -> None:
    """The model hub's metrics count its requests and are not reachable from outside."""
    assert hub.get("/metrics").status_code == 404
    namespace = SERVICE.namespace_of(site)

    def metrics() -> str:  # of one pod; the request may be another's
        assert get("/tasks").status_code == 200
        pod = running_pods(kubectl, SERVICE.name, namespace)[0]["metadata"]["name"]
        return kubectl("exec", pod, f"--namespace={namespace}", "--container=api", "--", "python3", "-c", READ_METRICS)

    names = ("ml_hub_http_requests_total{", "ml_hub_database_connections_limit")
    text = settled(metrics, lambda text: all(name in text for name in names))
    assert [name for name in names if name not in text] == []


def test_as_many_pods_as_in_the_site_file(kubectl: Kubectl, hub_model: MlHub, site: Site) -> None:
    """The model hub has as many ready pods as site.yaml sets."""
    options = ("--namespace", SERVICE.namespace_of(site), "--output", "json")

    def ready() -> int:
        return int(json.loads(kubectl("get", "deployment", "ml-hub", *options))["status"].get("readyReplicas", 0))

    assert settled(ready, lambda count: count == hub_model.replicas) == hub_model.replicas


@pytest.fixture(scope="module")
def sql(
    site: Site, hub_model: MlHub, cloud_outputs: CloudOutputs | None, host: Callable[[str], Host]
) -> Callable[[str], str]:
    """Asks the model hub's database on its own host, as PostgreSQL's administrator."""
    assert hub_model
    servers = hosts_with("postgresql", site, cloud_outputs)
    if not servers:
        pytest.skip(f"site {site.name} has no host with the role postgresql")
    server = host(servers[0].name)

    def ask(statement: str) -> str:
        command = "runuser --user postgres -- psql --dbname %s --no-align --tuples-only --no-psqlrc --command %s"
        return str(server.check_output(command, DATABASE.name, statement)).strip()

    return ask


def test_catalogue_is_in_the_database(sql: Callable[[str], str], catalogue: dict[str, Records]) -> None:
    """PostgreSQL holds as many models and datasets as the catalogue file."""
    assert sql("SELECT count(*) FROM models") == str(len(catalogue["models"]))
    assert sql("SELECT count(*) FROM datasets") == str(len(catalogue["datasets"]))


def test_hub_asks_its_database_over_tls(sql: Callable[[str], str], get: Get) -> None:
    """Every connection of the model hub to PostgreSQL is encrypted."""
    assert get("/models", limit=1).status_code == 200
    sessions = "FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) WHERE application_name = 'ml-hub'"
    assert int(sql(f"SELECT count(*) {sessions} AND ssl")) > 0
    assert sql(f"SELECT count(*) {sessions} AND NOT ssl") == "0"
