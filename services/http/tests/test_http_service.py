"""What every service has: problems, request ids, the log, metrics, probes, the document, commands."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import requests

from strata.site.paths import REPOSITORY
from strata_bench.service_processes import Service, counted
from strata_bench.services import PostgreSQL, free_port
from strata_bench.token_issuer import Issuer

from .conftest import RunExample, StartExample

PROBLEM = {"type", "title", "status", "detail", "instance", "request_id", "errors"}


def get(example: Service, issuer: Issuer, path: str, **headers: str) -> requests.Response:
    headers = {"Authorization": f"Bearer {issuer.token()}", **headers}
    return requests.get(example.url + path, headers=headers, timeout=60)


def assert_problem(response: requests.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem.keys() == PROBLEM
    assert problem["status"] == status
    assert problem["request_id"] == response.headers["X-Request-ID"]
    return problem


def test_errors_are_problems(example: Service, issuer: Issuer) -> None:
    assert "/v1/openapi.json" in assert_problem(get(example, issuer, "/v1/nothing"), 404)["detail"]
    wrong_method = requests.patch(f"{example.url}/v1/tenants/hep/notes/1", timeout=60)
    assert_problem(wrong_method, 405)
    assert wrong_method.headers["Allow"] == "DELETE, GET"
    (refused,) = assert_problem(get(example, issuer, "/v1/numbers/many"), 422)["errors"]
    assert refused["where"] == "path.number"
    failed = get(example, issuer, "/v1/numbers/0")
    problem = assert_problem(failed, 500)
    assert "division" not in failed.text
    line = example.logged(event="unexpected error", request_id=problem["request_id"])
    assert "ZeroDivisionError" in line["exception"]


def test_the_database_is_read(example: Service, issuer: Issuer) -> None:
    assert get(example, issuer, "/v1/greeting").json() == "hello"
    assert requests.get(f"{example.url}/readyz", timeout=60).json() == {"status": "ok"}


def test_without_a_database_the_service_lives_but_is_not_ready(start_example: StartExample, issuer: Issuer) -> None:
    with start_example({"EXAMPLE_DATABASE_PORT": str(free_port())}) as example:
        assert requests.get(f"{example.url}/healthz", timeout=60).status_code == 200
        for path in ("/readyz", "/v1/greeting"):
            response = get(example, issuer, path)
            assert "database" in assert_problem(response, 503)["detail"]
            assert response.headers["Retry-After"]


def test_an_empty_database_is_not_ready(postgresql: PostgreSQL, start_example: StartExample) -> None:
    with start_example(postgresql.create_database("http_empty", "EXAMPLE")) as example:
        problem = assert_problem(requests.get(f"{example.url}/readyz", timeout=60), 503)
        assert "run `example migrate`" in problem["detail"]


def test_migrating_again_changes_nothing(run_example: RunExample, database: dict[str, str]) -> None:
    assert json.loads(run_example(database, "migrate").stdout) == {"schema": "0001", "changed": False}


def test_request_ids_are_kept_when_they_are_harmless(example: Service) -> None:
    kept = requests.get(f"{example.url}/healthz", headers={"X-Request-ID": "abc-1"}, timeout=60)
    assert kept.headers["X-Request-ID"] == "abc-1"
    made = requests.get(f"{example.url}/healthz", headers={"X-Request-ID": "a b {}"}, timeout=60)
    assert made.headers["X-Request-ID"] != "a b {}"


def test_probes_are_not_logged_and_requests_are(example: Service, issuer: Issuer) -> None:
    get(example, issuer, "/healthz", **{"X-Request-ID": "probe"})
    get(example, issuer, "/v1/caller?secret=no", **{"X-Request-ID": "request"})
    expected = {"event": "request", "method": "GET", "path": "/v1/caller", "status": 200, "subject": "tester"}
    assert example.logged(request_id="request").items() >= expected.items()
    assert '"probe"' not in example.log
    assert "secret=no" not in example.log


def test_metrics_are_on_a_port_of_their_own(example: Service, issuer: Issuer, metrics_url: str) -> None:
    get(example, issuer, "/v1/numbers/7531")
    assert requests.get(f"{example.url}/metrics", timeout=60).status_code == 404
    count = 'example_http_requests_total{method="GET",route="/numbers/{number}",status="200"}'
    text = counted(metrics_url, count)
    assert "example_http_request_duration_seconds_bucket" in text
    assert "example_database_connections_limit 5.0" in text
    # names and labels; a duration may have these digits
    assert not any("7531" in line.rpartition(" ")[0] for line in text.splitlines())


def test_the_document_names_problems_and_the_token(example: Service) -> None:
    document = requests.get(f"{example.url}/v1/openapi.json", timeout=60).json()
    assert document["info"] == {"title": "Example", "summary": "An example.", "version": "1"}
    caller = document["paths"]["/v1/caller"]["get"]
    assert caller["security"]
    for status in ("401", "422", "503"):
        schema = caller["responses"][status]["content"]["application/problem+json"]["schema"]
        assert schema == {"$ref": "#/components/schemas/Problem"}
    for name in {part.split("'")[0] for part in str(document).split("#/components/schemas/")[1:]}:
        assert name in document["components"]["schemas"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"EXAMPLE_DATABASE_HOST": None}, "EXAMPLE_DATABASE_HOST: Field required"),
        ({"EXAMPLE_DATABASE_PORT": "0"}, "EXAMPLE_DATABASE_PORT: "),
        ({"EXAMPLE_DATABASE_PASSWORD": None}, "EXAMPLE_DATABASE_PASSWORD_FILE"),
        ({"EXAMPLE_DATABASE_CA_FILE": None}, "EXAMPLE_DATABASE_CA_FILE"),
        ({"EXAMPLE_DATABASE_CA_FILE": "/nowhere"}, "EXAMPLE_DATABASE_CA_FILE: there is no file /nowhere"),
        ({"EXAMPLE_DATABASE_PASSWORD": "guessed"}, "password authentication failed"),
    ],
)
def test_wrong_settings_are_named(
    run_example: RunExample, database: dict[str, str], changes: dict[str, str | None], text: str
) -> None:
    environment = {name: value for name, value in {**database, **changes}.items() if value is not None}
    done = run_example(environment, "migrate")
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert "guessed" not in done.stderr


def test_the_locks_of_services_know_what_the_package_needs() -> None:
    """`uv export --frozen` reads the lock alone: an image would lack what was added to the package's pyproject.toml."""
    needed = tomllib.loads((REPOSITORY / "services/http/pyproject.toml").read_text())["project"]["dependencies"]
    for file in REPOSITORY.glob("services/*/uv.lock"):
        for package in tomllib.loads(file.read_text())["package"]:
            if package["name"] == "strata-http":
                locked = {_requirement(entry) for entry in package["metadata"]["requires-dist"]}
                assert locked == set(needed), f"{file}: run `uv lock --project {Path(file).parent}`"


def _requirement(entry: dict[str, Any]) -> str:
    extras = f"[{','.join(entry['extras'])}]" if "extras" in entry else ""
    return f"{entry['name']}{extras}{entry['specifier']}"
