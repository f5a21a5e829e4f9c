"""Schema and catalogue: what `migrate` and `load` do to a real database, over TLS."""

from __future__ import annotations

import json
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from strata.site.secrets import pki
from strata_bench.service_processes import Service, http_server
from strata_bench.services import PostgreSQL, ServiceCommands, free_port
from strata_bench.token_issuer import Issuer

from .conftest import CATALOGUE, StartHub


@pytest.fixture
def environment(postgresql: PostgreSQL, run_hub: ServiceCommands, request: pytest.FixtureRequest) -> dict[str, str]:
    """A database of the test's own, migrated."""
    name = "db_" + "".join(c for c in request.node.name if c.isalnum()).lower()[-50:]
    variables = postgresql.create_database(name, "ML_HUB")
    assert run_hub(variables, "migrate").returncode == 0
    return variables


def counts(done: subprocess.CompletedProcess[str], kind: str = "models") -> dict[str, int]:
    assert done.returncode == 0, done.stderr
    numbers: dict[str, int] = json.loads(done.stdout)[kind]
    return numbers


def assert_user_error(done: subprocess.CompletedProcess[str], *texts: str) -> None:
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    for text in texts:
        assert text in done.stderr


def rows(postgresql: PostgreSQL, environment: dict[str, str], kind: str = "models") -> int:
    statement = f"SELECT count(*) FROM {kind}"  # noqa: S608  # the test's own word
    return int(postgresql.sql(statement, environment["ML_HUB_DATABASE_NAME"]))


def test_migrating_twice_changes_nothing(
    postgresql: PostgreSQL, run_hub: ServiceCommands, environment: dict[str, str]
) -> None:
    again = run_hub(environment, "migrate")
    assert json.loads(again.stdout) == {"schema": "0002", "changed": False}
    indexes = postgresql.sql(
        "SELECT string_agg(indexname, ',' ORDER BY indexname) FROM pg_indexes WHERE tablename = 'models'",
        environment["ML_HUB_DATABASE_NAME"],
    )
    assert indexes == (
        "models_author,models_datasets,models_languages,models_library_name,models_pipeline_tag,"
        "models_pkey,models_popular,models_search"
    )


def test_the_model_of_the_tables_is_what_the_migrations_make(environment: dict[str, str], hub_python: Path) -> None:
    program = (
        "from alembic.autogenerate import compare_metadata\n"
        "from alembic.runtime.migration import MigrationContext\n"
        "from strata_http.database import create_command_engine\n"
        "from ml_hub.settings import DatabaseSettings\n"
        "from ml_hub.tables import metadata\n"
        "with create_command_engine(DatabaseSettings()).connect() as connection:\n"
        "    context = MigrationContext.configure(connection, opts={'compare_type': True})\n"
        "    print(compare_metadata(context, metadata))\n"
    )
    done = subprocess.run([str(hub_python), "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_search_is_served_by_the_index(
    postgresql: PostgreSQL, run_hub: ServiceCommands, environment: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "many.json"
    file.write_text(json.dumps([{"id": f"author{n % 50}/model-{n}", "downloads": n} for n in range(5000)]))
    assert counts(run_hub(environment, "load", "--file", str(file)))["inserted"] == 5000
    database = environment["ML_HUB_DATABASE_NAME"]
    postgresql.sql("ANALYZE models", database)
    plan = postgresql.sql("EXPLAIN SELECT id FROM models WHERE search @@ to_tsquery('simple', '4711:*')", database)
    assert "models_search" in plan
    plan = postgresql.sql("EXPLAIN SELECT id FROM models ORDER BY downloads DESC, id LIMIT 100", database)
    assert "models_popular" in plan


def test_loading_twice_changes_nothing(
    postgresql: PostgreSQL, run_hub: ServiceCommands, environment: dict[str, str]
) -> None:
    first = run_hub(environment, "load", "--file", str(CATALOGUE))
    second = run_hub(environment, "load", "--file", str(CATALOGUE), "--prune")
    for kind, records in json.loads(CATALOGUE.read_text()).items():
        total = len(records)
        assert counts(first, kind) == {"inserted": total, "updated": 0, "unchanged": 0, "removed": 0, "total": total}
        assert counts(second, kind) == {"inserted": 0, "updated": 0, "unchanged": total, "removed": 0, "total": total}
        assert rows(postgresql, environment, kind) == total


def test_loading_updates_and_prunes(run_hub: ServiceCommands, environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "catalogue.json"
    file.write_text(json.dumps([{"id": "a/one", "downloads": 1}, {"id": "a/two"}, {"id": "three"}]))
    assert counts(run_hub(environment, "load", "--file", str(file)))["inserted"] == 3
    file.write_text(json.dumps([{"id": "a/one", "downloads": 2}, {"id": "a/two"}, {"id": "b/four"}]))
    kept = counts(run_hub(environment, "load", "--file", str(file)))
    assert kept == {"inserted": 1, "updated": 1, "unchanged": 1, "removed": 0, "total": 4}
    file.write_text(json.dumps({"datasets": [{"id": "a/set"}], "models": json.loads(file.read_text())}))
    done = run_hub(environment, "load", "--file", str(file), "--prune")
    assert counts(done, "datasets")["inserted"] == 1
    pruned = counts(done)
    assert pruned == {"inserted": 0, "updated": 0, "unchanged": 3, "removed": 1, "total": 3}


def test_replicas_may_migrate_and_load_at_once(postgresql: PostgreSQL, run_hub: ServiceCommands) -> None:
    environment = postgresql.create_database("db_at_once", "ML_HUB")
    done = run_hub.at_once([(environment, ["migrate"])] * 3)
    assert sorted(json.loads(d.stdout)["changed"] for d in done) == [False, False, True]
    loads = run_hub.at_once([(environment, ["load", "--file", str(CATALOGUE)])] * 3)
    assert sum(counts(load)["inserted"] for load in loads) == rows(postgresql, environment)


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("[", ["is not JSON"]),
        ('{"modells": []}', ["must hold a list of models, or an object"]),
        ('{"datasets": {}}', ["datasets must be a list, is dict"]),
        ('{"datasets": [{"id": "a/b", "size_categories": "1K"}]}', ["datasets: entry 0 (a/b)", "size_categories"]),
        ('["a"]', ["models: entry 0"]),
        ('[{"downloads": 1}]', ["entry 0", "id", "Field required"]),
        ('[{"id": "a/b", "downloads": -1}]', ["entry 0 (a/b)", "downloads", "-1"]),
        ('[{"id": "a/b", "dowloads": 1}]', ["dowloads", "Extra inputs"]),
        ('[{"id": "a/b"}, {"id": "a/b"}]', ["entry 1 (a/b)", "duplicate id"]),
        ('[{"id": "a\\u0000b"}]', ["NUL"]),
        ('[{"id": "a/b", "created_at": "yesterday"}]', ["created_at", "yesterday"]),
    ],
)
def test_errors_in_the_file_are_named(
    postgresql: PostgreSQL,
    run_hub: ServiceCommands,
    hub_environment: dict[str, str],
    tmp_path: Path,
    content: str,
    texts: list[str],
) -> None:
    file = tmp_path / "catalogue.json"
    file.write_text(content)
    before = rows(postgresql, hub_environment)
    assert_user_error(run_hub(hub_environment, "load", "--file", str(file), "--prune"), str(file), *texts)
    assert rows(postgresql, hub_environment) == before


def test_wrong_arguments_and_settings_are_named(
    run_hub: ServiceCommands, hub_environment: dict[str, str], tmp_path: Path
) -> None:
    assert_user_error(run_hub(hub_environment, "load"), "--file FILE or --hub")
    missing = tmp_path / "none.json"
    assert_user_error(run_hub(hub_environment, "load", "--file", str(missing)), str(missing), "No such file")
    assert_user_error(run_hub({}, "migrate"), "ML_HUB_DATABASE_HOST")
    without_ca = {k: v for k, v in hub_environment.items() if k != "ML_HUB_DATABASE_CA_FILE"}
    assert_user_error(run_hub(without_ca, "migrate"), "ML_HUB_DATABASE_CA_FILE")
    assert_user_error(run_hub(hub_environment, "serve"), "ML_HUB_ISSUER")


def test_wrong_password_is_reported_without_it(run_hub: ServiceCommands, hub_environment: dict[str, str]) -> None:
    done = run_hub({**hub_environment, "ML_HUB_DATABASE_PASSWORD": "wrong-password"}, "migrate")
    assert_user_error(done, "password authentication failed")
    assert "wrong-password" not in done.stderr


def test_a_server_of_another_authority_is_refused(
    run_hub: ServiceCommands, hub_environment: dict[str, str], tmp_path: Path
) -> None:
    other, _ = pki.create_authority("another")
    file = tmp_path / "other.pem"
    file.write_text(other)
    assert_user_error(run_hub({**hub_environment, "ML_HUB_DATABASE_CA_FILE": str(file)}, "migrate"), "certificate")


def test_a_server_of_another_name_is_refused(run_hub: ServiceCommands, hub_environment: dict[str, str]) -> None:
    # 127.0.0.2 is the same server, but its certificate does not name it
    done = run_hub({**hub_environment, "ML_HUB_DATABASE_HOST": "127.0.0.2"}, "migrate")
    assert done.returncode == 2
    by_address = run_hub({**hub_environment, "ML_HUB_DATABASE_HOST": "127.0.0.1"}, "migrate")
    assert by_address.returncode == 0, by_address.stderr


def test_every_session_is_encrypted(postgresql: PostgreSQL, hub: Service) -> None:
    assert requests.get(f"{hub.url}/readyz", timeout=60).status_code == 200
    plain = postgresql.sql(
        "SELECT count(*) FROM pg_stat_activity a JOIN pg_stat_ssl s USING (pid) "
        "WHERE application_name = 'ml-hub' AND NOT s.ssl"
    )
    encrypted = postgresql.sql(
        "SELECT count(*) FROM pg_stat_activity a JOIN pg_stat_ssl s USING (pid) "
        "WHERE application_name = 'ml-hub' AND s.ssl"
    )
    assert plain == "0"
    assert int(encrypted) >= 1


def test_the_password_file_is_read_for_each_connection(
    postgresql: PostgreSQL, start_hub: StartHub, environment: dict[str, str], tmp_path: Path
) -> None:
    name = environment["ML_HUB_DATABASE_NAME"]
    file = tmp_path / "password"
    file.write_text(environment.pop("ML_HUB_DATABASE_PASSWORD") + "\n")
    with start_hub({**environment, "ML_HUB_DATABASE_PASSWORD_FILE": str(file)}) as hub:
        assert requests.get(f"{hub.url}/readyz", timeout=60).status_code == 200
        postgresql.sql(f"ALTER ROLE {name} PASSWORD 'rotated'")
        file.write_text("rotated")
        # dropped connections are replaced without a failed request
        postgresql.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ml-hub'")
        assert requests.get(f"{hub.url}/readyz", timeout=60).status_code == 200


def test_without_a_database_the_hub_lives_but_is_not_ready(
    start_hub: StartHub, hub_environment: dict[str, str], issuer: Issuer
) -> None:
    with start_hub({**hub_environment, "ML_HUB_DATABASE_PORT": str(free_port())}) as hub:
        assert requests.get(f"{hub.url}/healthz", timeout=60).status_code == 200
        for path in ("/readyz", "/v3/ml-hub/models"):
            headers = {"Authorization": f"Bearer {issuer.token()}"}
            response = requests.get(hub.url + path, headers=headers, timeout=60)
            assert response.status_code == 503
            assert response.json()["status"] == "error"
            assert hub_environment["ML_HUB_DATABASE_PASSWORD"] not in hub.log


def test_an_empty_database_is_not_ready(postgresql: PostgreSQL, start_hub: StartHub) -> None:
    with start_hub(postgresql.create_database("db_empty", "ML_HUB")) as hub:
        response = requests.get(f"{hub.url}/readyz", timeout=60)
        assert response.status_code == 503
        assert "ml-hub migrate" in response.json()["message"]


HUB_MODELS = [
    {
        "_id": f"{n:024x}", "id": f"author{n % 3}/model-{n}", "author": f"author{n % 3}", "downloads": 1000 - n,
        "likes": n, "pipeline_tag": "text-generation", "library_name": "transformers", "private": False,
        "tags": ["transformers", "en", "dataset:c4", "license:mit"], "createdAt": "2024-01-02T03:04:05.000Z",
        "lastModified": "2024-02-03T04:05:06.000Z", "cardData": {"language": ["en", "de"], "license": "mit"},
    }
    for n in range(5)
]  # fmt: skip


HUB_DATASET = {
    "_id": "621ffdd236468d709f181f08", "id": "openai/gsm8k", "author": "openai", "downloads": 7, "likes": 3,
    "private": False, "gated": "auto", "disabled": False, "paperswithcode_id": "gsm8k", "description": "Word problems.",
    "citation": "x" * 30_000, "createdAt": "2022-04-12T10:22:10.000Z", "lastModified": "2024-01-04T12:05:15.000Z",
    "tags": ["task_categories:text-generation", "language:en", "license:mit", "size_categories:10K<n<100K"],
}  # fmt: skip


def of(kind: str, models: list[dict[str, Any]]) -> Callable[[str], tuple[int, dict[str, str], Any]]:
    """Answers of a hub with these alone."""
    return lambda path: (200, {}, models if urlsplit(path).path == f"/api/{kind}" else [])


def test_loading_from_a_hub_page_by_page(
    postgresql: PostgreSQL, run_hub: ServiceCommands, environment: dict[str, str], tmp_path: Path
) -> None:
    asked: list[dict[str, list[str]]] = []
    pages: list[str] = []

    def answer(path: str) -> tuple[int, dict[str, str], Any]:
        parts = urlsplit(path)
        if parts.path == "/api/datasets":
            return 200, {}, [HUB_DATASET]
        query = parse_qs(parts.query)
        asked.append(query)
        if "cursor" in query:
            # the last of the first page comes again, as it does when downloads change meanwhile
            return 200, {}, HUB_MODELS[2:]
        return 200, {"Link": f'<{pages[0]}/api/models?cursor=next>; rel="next"'}, HUB_MODELS[:3]

    with http_server(answer) as url:
        pages.append(url)
        environment |= {"HF_HOME": str(tmp_path), "HF_HUB_DISABLE_TELEMETRY": "1"}
        done = run_hub(environment, "load", "--hub", "--limit", "100", "--endpoint", url)
    assert counts(done)["inserted"] == 5
    assert asked[0]["sort"] == ["downloads"]
    row = postgresql.sql(
        "SELECT author, languages, datasets, license, created_at FROM models WHERE id = 'author1/model-4'",
        environment["ML_HUB_DATABASE_NAME"],
    )
    assert row.startswith("author1|{en,de}|{c4}|mit|2024-01-02 03:04:05")
    assert counts(done, "datasets")["inserted"] == 1
    row = postgresql.sql(
        "SELECT hub_id, languages, task_categories, size_categories, license, gated, citation IS NULL FROM datasets",
        environment["ML_HUB_DATABASE_NAME"],
    )
    assert row == "621ffdd236468d709f181f08|{en}|{text-generation}|{10K<n<100K}|mit|t|t"


def bad(**changes: Any) -> dict[str, Any]:
    return {**HUB_MODELS[0], "id": f"bad/{next(iter(changes))}", **changes}


def test_what_anyone_may_write_at_a_hub_stops_no_load(
    postgresql: PostgreSQL, run_hub: ServiceCommands, environment: dict[str, str], tmp_path: Path
) -> None:
    """Empty and over-long texts are left out; a model that cannot be kept is skipped, and named."""
    long = "x" * 300
    models = [
        bad(tags=["dataset:", "license:", "", long, "a\0b", f"dataset:{long}", "dataset:c4", "license:mit", "fine"]),
        bad(library_name="", pipeline_tag=long, author=long),
        bad(cardData={"language": ["en", "", 5, None, "not a language", long]}),
        bad(id=f"bad/{long}"),
        bad(downloads=-1),
        *HUB_MODELS,
    ]
    with http_server(of("models", models)) as url:
        environment |= {"HF_HOME": str(tmp_path), "HF_HUB_DISABLE_TELEMETRY": "1"}
        done = run_hub(environment, "load", "--hub", "--limit", "100", "--endpoint", url)
    assert counts(done)["inserted"] == len(models) - 2
    assert "2 of 10 were skipped" in done.stderr
    assert "bad/xxx" in done.stderr
    assert "bad/downloads" in done.stderr

    def row(name: str, columns: str) -> str:
        return postgresql.sql(
            f"SELECT {columns} FROM models WHERE id = 'bad/{name}'",  # noqa: S608  # the test's own words
            environment["ML_HUB_DATABASE_NAME"],
        )

    tags = "{dataset:,license:,dataset:c4,license:mit,fine}"
    assert row("tags", "license, datasets, tags") == f"mit|{{c4}}|{tags}"
    assert row("library_name", "author, library_name, pipeline_tag") == "bad||"
    assert row("cardData", "languages") == "{en}"


def test_a_mirror_has_a_ca_of_its_own(run_hub: ServiceCommands, environment: dict[str, str], tmp_path: Path) -> None:
    """With SSL_CERT_FILE, as the chart sets it."""
    authority, key = pki.create_authority("mirror")
    certificate = pki.issue(authority, key, "hub", [], ["127.0.0.1"])
    for name, text in (("ca", authority), ("server", certificate.certificate + certificate.private_key)):
        (tmp_path / f"{name}.pem").write_text(text)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "server.pem")
    environment |= {"HF_HOME": str(tmp_path), "HF_HUB_DISABLE_TELEMETRY": "1"}
    with http_server(of("models", HUB_MODELS), tls) as url:
        refused = run_hub(environment, "load", "--hub", "--endpoint", url)
        assert_user_error(refused, url, "certificate")
        trusting = environment | {"SSL_CERT_FILE": str(tmp_path / "ca.pem")}
        assert counts(run_hub(trusting, "load", "--hub", "--endpoint", url))["total"] == len(HUB_MODELS)


def test_a_hub_that_answers_with_an_error_is_named(
    run_hub: ServiceCommands, hub_environment: dict[str, str], tmp_path: Path
) -> None:
    with http_server(lambda _: (404, {}, {"error": "no such API"})) as url:
        done = run_hub({**hub_environment, "HF_HOME": str(tmp_path)}, "load", "--hub", "--endpoint", url)
    assert_user_error(done, url, "404")
