"""The model hub, as users see it: from outside, over TLS, at its host name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests

from strata.models import Site
from strata.site.hosts import hosts_with
from strata.site.outputs import CloudOutputs
from strata.verify.api import Api
from strata.verify.pods import Kubectl, running_pods
from strata.verify.waiting import settled
from strata_services.ml_hub.service import AUDIENCE, DATABASE, SERVICE, MlHub

if TYPE_CHECKING:
    from testinfra.host import Host

    from strata.site.context import SiteContext

T5_MODELS = ("Voicelab/vlt5-base-keywords", "google/flan-t5-large", "grammarly/coedit-large")
"""The models that the ML Hub's authors serve; the lab's catalogue holds them."""
READ_METRICS = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:9464/metrics').read().decode())"

Get = Callable[..., requests.Response]
Models = list[dict[str, Any]]


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
def models(context: SiteContext, hub_model: MlHub) -> Models:
    """The models of the catalogue's file, most downloaded first."""
    if hub_model.catalogue.file is None:
        pytest.skip("the catalogue comes from the Hugging Face API: there is no file to compare with")
    records = json.loads((Path(context.site_file).parent / hub_model.catalogue.file).read_text())
    return sorted(records, key=lambda r: (-r["downloads"], r["id"]))


def ids(response: requests.Response) -> list[str]:
    """Ids of a list of models."""
    assert response.status_code == 200, response.text
    return [item["id"] for item in response.json()["items"]]


def assert_problem(response: requests.Response, status: int) -> None:
    """The one shape of errors."""
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == status
    assert problem["detail"]
    assert problem["request_id"] == response.headers["X-Request-ID"]


@pytest.mark.parametrize("path", ["/models", "/models/google/flan-t5-large", "/authors", "/tasks"])
def test_hub_refuses_without_a_token(hub: Api, path: str) -> None:
    """The model hub returns 401 with a challenge for a request without a token."""
    response = hub.get(f"/v3/ml-hub{path}")
    assert_problem(response, 401)
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="ml-hub"'


def test_hub_refuses_a_changed_token(hub: Api, token: str) -> None:
    """The model hub returns 401 for a modified or malformed token."""
    head, body, signature = token.split(".")
    swapped = signature[-10:] + signature[10:-10] + signature[:10]
    for bad in (f"{head}.{body}.{swapped}", f"{head}.{body}.", "rubbish"):
        response = hub.get("/v3/ml-hub/models", bad)
        assert_problem(response, 401)
        assert 'error="invalid_token"' in response.headers["WWW-Authenticate"]


def test_hub_lists_the_most_downloaded(get: Get, models: Models) -> None:
    """GET /models lists the 100 most downloaded models of the catalogue, in order."""
    assert ids(get("/models")) == [m["id"] for m in models[:100]]


def test_hub_pages_through_all_models(get: Get, models: Models) -> None:
    """The cursors of GET /models page through every model exactly once."""
    found: list[str] = []
    parameters: dict[str, str | int] = {"limit": 50}
    while True:
        response = get("/models", **parameters)
        found += ids(response)
        following = response.json()["next_cursor"]
        if following is None or len(found) > len(models):
            break
        parameters["cursor"] = following
    assert found == [m["id"] for m in models]


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
def test_hub_filters(get: Get, models: Models, route: str, parameter: str, field: str) -> None:
    """Each filter of the model hub returns the models of the catalogue file that match, by route and by parameter."""
    value = next(v for m in models for v in (m[field] if isinstance(m[field], list) else [m[field]]) if v)
    expected = [m["id"] for m in models if value in (m[field] if isinstance(m[field], list) else [m[field]])][:100]
    assert ids(get("/models", **{parameter: value})) == expected
    assert ids(get(f"/models/{route}/{value}")) == expected


def test_hub_searches(get: Get, models: Models) -> None:
    """The model hub finds a model by prefixes of the words in its name."""
    known = {m["id"] for m in models}
    for model_id in (i for i in T5_MODELS if i in known):
        words = model_id.replace("/", " ").replace("-", " ").lower()
        assert model_id in ids(get(f"/models/search/{words[:-2]}"))
    assert ids(get("/models", search="nosuchwordanywhere")) == []


def test_hub_shows_one_model(get: Get, models: Models) -> None:
    """GET /models/{model_id} returns every field of the model in the catalogue file."""
    for record in [m for m in models if m["id"] in T5_MODELS] or models[:1]:
        response = get(f"/models/{record['id']}")
        assert response.status_code == 200, response.text
        assert record.items() <= response.json().items()


def test_hub_knows_no_such_model(get: Get) -> None:
    """The model hub returns 404 in its error format for an unknown model."""
    assert_problem(get("/models/nobody/no-such-model"), 404)
    assert_problem(get("/models", limit=0), 422)


@pytest.mark.parametrize(
    ("path", "field"),
    [("/authors", "author"), ("/tasks", "pipeline_tag"), ("/libraries", "library_name"), ("/languages", "languages")],
)
def test_hub_counts_names(get: Get, models: Models, path: str, field: str) -> None:
    """The model hub lists authors, tasks, libraries and languages with their numbers of models."""
    items = get(path).json()["items"]
    assert items
    for item in items:
        having = [m for m in models if item["name"] in (m[field] if isinstance(m[field], list) else [m[field]])]
        assert item["count"] == len(having), item


def test_hub_describes_itself(hub: Api) -> None:
    """The model hub serves its OpenAPI document."""
    document = hub.get("/v3/ml-hub/openapi.json").json()
    assert document["openapi"].startswith("3.")
    assert {"/v3/ml-hub/models", "/v3/ml-hub/models/{model_id}", "/v3/ml-hub/authors"} <= document["paths"].keys()


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

    wanted = ("ml_hub_http_requests_total{", "ml_hub_database_connections_limit")
    text = settled(metrics, lambda found: all(name in found for name in wanted))
    assert [name for name in wanted if name not in text] == []


def test_as_many_pods_as_the_site_says(kubectl: Kubectl, hub_model: MlHub, site: Site) -> None:
    """The model hub has as many ready pods as site.yaml sets."""
    options = ("--namespace", SERVICE.namespace_of(site), "--output", "json")

    def ready() -> int:
        return int(json.loads(kubectl("get", "deployment", "ml-hub", *options))["status"].get("readyReplicas", 0))

    assert settled(ready, lambda found: found == hub_model.replicas) == hub_model.replicas


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


def test_catalogue_is_in_the_database(sql: Callable[[str], str], models: Models) -> None:
    """PostgreSQL holds as many models as the catalogue file."""
    assert sql("SELECT count(*) FROM models") == str(len(models))


def test_hub_asks_its_database_over_tls(sql: Callable[[str], str], get: Get) -> None:
    """Every connection of the model hub to PostgreSQL is encrypted."""
    assert get("/models", limit=1).status_code == 200
    sessions = "FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) WHERE application_name = 'ml-hub'"
    assert int(sql(f"SELECT count(*) {sessions} AND ssl")) > 0
    assert sql(f"SELECT count(*) {sessions} AND NOT ssl") == "0"
