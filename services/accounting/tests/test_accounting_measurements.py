"""Users' measurements: the API as its own process, with tokens of an issuer of the tests, on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import requests

from strata.catalogue.issuer import administrators_group, tenant_group
from strata.catalogue.service import Service as CatalogueService
from strata.verify.forgeries import FORGERIES, Signer
from strata_bench.service_processes import Service, http_server, running
from strata_bench.services import PostgreSQL, free_port, service_python
from strata_bench.token_issuer import Issuer, Key, running_issuer
from strata_services.accounting.service import AUDIENCE, SERVICE

from .records import Records, migrated_database

ROWS, BYTES = 100, 50_000
Call = Callable[..., requests.Response]


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running_issuer(AUDIENCE.name) as running:
        yield running


@pytest.fixture(scope="module")
def records(postgresql: PostgreSQL, tmp_path_factory: pytest.TempPathFactory) -> Records:
    return migrated_database(postgresql, "accounting_measurements", tmp_path_factory.mktemp("measurements"))


@pytest.fixture(scope="module")
def api(records: Records, issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    port = free_port()
    settings = {
        **records.environment,
        "ACCOUNTING_BIND_PORT": str(port),
        "ACCOUNTING_ISSUER": issuer.url,
        "ACCOUNTING_MAXIMUM_ROWS": str(ROWS),
        "ACCOUNTING_MAXIMUM_BYTES": str(BYTES),
    }
    directory = tmp_path_factory.mktemp("api")
    with running(service_python("accounting"), ["-m", "accounting", "serve"], settings, port, directory) as service:
        yield service


@pytest.fixture(autouse=True)
def _empty(records: Records) -> None:
    """Each test begins without rows; TRUNCATE is not subject to row-level security."""
    with records.connect() as connection:
        connection.execute("TRUNCATE measurement")


@pytest.fixture
def as_user(api: Service, issuer: Issuer) -> Callable[..., Call]:
    """`as_user("carol", "hep")("POST", json={…})` → the answer."""

    def of(name: str, *tenants: str) -> Call:
        groups = ["/staff", *map(tenant_group, tenants), *map(administrators_group, tenants[:1])]
        token = issuer.token(preferred_username=name, groups=groups)

        def call(method: str, path: str = "/measurement", **options: Any) -> requests.Response:
            headers = {"Authorization": f"Bearer {token}"}
            return requests.request(method, api.url + path, headers=headers, timeout=30, **options)

        return call

    return of


def rows_of(answer: requests.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    return list(answer.json())


def refused(answer: requests.Response, status: int, *texts: str) -> None:
    """PostgREST's form of errors, naming what is wrong and what to do."""
    assert answer.status_code == status, answer.text
    content = answer.json()
    assert content.keys() == {"code", "message", "details", "hint"}
    for text in texts:
        assert text in f"{content['message']} | {content['hint']}"


def test_a_member_writes_and_reads_the_rows_of_the_tenant(as_user: Callable[..., Call]) -> None:
    carol = as_user("carol", "hep")
    measurement = {"name": "loss", "value": 1, "unit": "nat", "at": "2026-11-23T10:00:00+02:00", "labels": {"run": "a"}}
    answer = carol("POST", json=measurement)
    assert (answer.status_code, answer.content) == (201, b"")
    assert carol("POST", json=[{"name": "loss", "value": 0.5}, {"name": "rate", "value": -3e-7}]).status_code == 201
    rows = rows_of(carol("GET", params={"order": "value.desc"}))
    assert [row["value"] for row in rows] == [1, 0.5, -3e-7]
    assert rows[0].items() >= {**measurement, "at": "2026-11-23T08:00:00+00:00"}.items()
    assert {(row["tenant"], row["username"]) for row in rows} == {("hep", "carol")}
    assert rows_of(as_user("dave", "hep")("GET")) == rows_of(carol("GET"))


def test_filters_order_and_limit(as_user: Callable[..., Call]) -> None:
    carol = as_user("carol", "hep")
    rows = [{"name": f"n{n % 2}", "value": n, "at": f"2026-11-{n + 10}T00:00:00Z"} for n in range(6)]
    carol("POST", json=rows)

    def ask(query: str) -> list[float]:
        return [row["value"] for row in rows_of(carol("GET", f"/measurement?{query}"))]

    assert ask("name=eq.n1") == [1, 3, 5]
    assert ask("name=neq.n1&value=gt.0&order=id.desc") == [4, 2]
    assert ask("value=gte.2&value=lt.4") == [2, 3]
    assert ask("at=lte.2026-11-11T00:00:00Z") == [0, 1]
    assert ask("order=name.desc,value.desc&limit=2") == [5, 3]
    assert ask("limit=0") == []


def test_other_tenants_see_and_write_nothing(as_user: Callable[..., Call]) -> None:
    assert as_user("carol", "hep")("POST", json={"name": "loss", "value": 1}).status_code == 201
    for other in (as_user("eve", "bio"), as_user("nobody")):
        assert rows_of(other("GET")) == []
        assert rows_of(other("GET", params={"tenant": "eq.hep"})) == []
        refused(other("POST", json={"tenant": "hep", "name": "loss", "value": 2}), 403, "tenant: is not one of yours")
        # all rows or none
        mixed = [{"tenant": "bio", "name": "x", "value": 1}, {"tenant": "hep", "name": "x", "value": 2}]
        refused(other("POST", json=mixed), 403)
        assert rows_of(other("GET")) == []
    refused(as_user("nobody")("POST", json={"name": "loss", "value": 1}), 403, "a member of none")
    assert len(rows_of(as_user("carol", "hep")("GET"))) == 1


def test_a_member_of_two_tenants_names_one(as_user: Callable[..., Call]) -> None:
    both = as_user("ada", "hep", "bio")
    refused(both("POST", json={"name": "loss", "value": 1}), 400, "tenant: is missing", "hep, bio")
    assert both("POST", json=[{"tenant": t, "name": "loss", "value": 1} for t in ("hep", "bio")]).status_code == 201
    assert [row["tenant"] for row in rows_of(both("GET", params={"order": "tenant"}))] == ["bio", "hep"]
    assert [row["tenant"] for row in rows_of(as_user("eve", "bio")("GET"))] == ["bio"]


@pytest.mark.parametrize("groups", [None, "/tenants/hep", 7, [7, None], ["tenants/hep", "/tenants/hep/admins", "hep"]])
def test_only_the_group_of_a_tenants_members_counts(
    as_user: Callable[..., Call], api: Service, issuer: Issuer, groups: object
) -> None:
    as_user("carol", "hep")("POST", json={"name": "loss", "value": 1})
    token = issuer.token(groups=groups)
    headers = {"Authorization": f"Bearer {token}"}
    assert rows_of(requests.get(f"{api.url}{AUDIENCE.path}", headers=headers, timeout=60)) == []


ATTACKS = (
    "hep' OR '1'='1",
    "hep'); DROP TABLE measurement; --",
    "x', true); SELECT set_config('accounting.tenants', 'hep', false); --",
    "%s",
    "{}",
    "bio,hep",
    "\u2019\u0000hep",
)


@pytest.mark.parametrize("text", ATTACKS)
def test_sql_in_a_request_is_text(as_user: Callable[..., Call], text: str) -> None:
    as_user("carol", "hep")("POST", json={"name": "secret", "value": 42})
    eve = as_user("eve", "bio")
    for parameters in ({"name": f"eq.{text}"}, {"tenant": f"eq.{text}"}):
        answer = eve("GET", params=parameters)
        assert (answer.status_code, answer.json()) == (200, []) or ("\0" in text and answer.status_code == 400)
    for parameters in (
        {text: "eq.1"}, {"order": text}, {"limit": text}, {"name": text}, {"value": f"eq.{text}"},
        {"order": f"id.desc,{text}"}, {"labels": f"eq.{text}"}, {"select": text},
    ):  # fmt: skip
        refused(eve("GET", params=parameters), 400)
    assert eve("POST", json={"tenant": text, "name": "x", "value": 1}).status_code in (400, 403)
    row = {"name": text, "value": 1, "unit": text[:50], "labels": {text: text}}
    stored = eve("POST", json=row)
    if "\0" in text:
        refused(stored, 400)
    else:
        assert stored.status_code == 201
        assert [{key: entry[key] for key in row} for entry in rows_of(eve("GET"))] == [row]
    # a name that holds what separates tenants makes its holder a member of none
    assert "secret" not in as_user(text, text)("GET").text
    assert len(rows_of(as_user("carol", "hep")("GET"))) == 1


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ("", 400, "body"),
        ("{", 400, "body"),
        ("[1]", 400, "0"),
        ('{"name": "loss"}', 400, "value: Field required"),
        ('{"name": "", "value": 1}', 400, "name"),
        ('{"name": "loss", "value": "1"}', 400, "value: Input should be a valid number, not '1'"),
        ('{"name": "loss", "value": NaN}', 400, "value"),
        ('{"name": "loss", "value": 1e999}', 400, "value"),
        ('[{"name": "loss", "value": 1}, {"name": "loss", "value": true}]', 400, "1.value"),
        ('{"name": "loss", "value": 1, "at": "2026-11-23T10:00:00"}', 400, "at"),
        ('{"name": "loss", "value": 1, "username": "ada"}', 400, "username"),
        ('{"name": "loss", "value": 1, "labels": {"a": {"b": 1}}}', 400, "labels.a"),
        ('{"name": "loss", "value": 1, "labels": ' + '{"a":' * 5000 + "1" + "}" * 5001, 400, "labels"),
        (f'{{"name": "{"n" * 201}", "value": 1}}', 400, "name"),
        ('{"name": "\\ud800", "value": 1}', 400, ""),
        ("[" + ",".join(['{"name": "n", "value": 1}'] * (ROWS + 1)) + "]", 413, f"has {ROWS + 1} rows"),
        ('{"name": "loss", "value": 1}' + " " * BYTES, 413, f"more than {BYTES} bytes"),
    ],
)
def test_wrong_rows_are_named(as_user: Callable[..., Call], body: str, status: int, text: str) -> None:
    carol = as_user("carol", "hep")
    refused(carol("POST", data=body.encode("utf-8", "surrogatepass")), status, text)
    assert rows_of(carol("GET")) == []


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ("color=eq.1", ("color", "one of the columns id, tenant")),
        ("name=loss", ("name", "name=eq.loss")),
        ("name=like.l*", ("name", "no operator")),
        ("value=eq.many", ("value", "number")),
        ("at=gt.today", ("at", "2026-11-23T08:00:00Z")),
        ("at=gt.2026-11-23T08:00:00+00:00", ("at", "%2B")),
        ("order=at.down", ("order", "at.desc")),
        (f"limit={ROWS + 1}", ("limit", f"up to {ROWS}")),
        (f"limit={'9' * 5000}", ("limit",)),
        ("id=eq." + "9" * 100, ()),
    ],
)
def test_wrong_parameters_are_named(as_user: Callable[..., Call], query: str, texts: tuple[str, ...]) -> None:
    answer = as_user("carol", "hep")("GET", f"/measurement?{query}")
    if texts:
        refused(answer, 400, *texts)
    else:
        assert rows_of(answer) == []


POD = """
INSERT INTO pod (uid, tenant, username, kind, namespace, name, node, cpus, memory_bytes, cards, starts, ends)
VALUES (gen_random_uuid(), %s, %s, 'pod', %s, %s, 'n1', 2, 2147483648, 1,
    '2026-11-23T08:00:00Z', '2026-11-23T11:00:00Z')
RETURNING uid
"""
USE = "INSERT INTO pod_usage VALUES (%s, '2026-11-23T08:00:00Z', 1800, 1, 1, 3600)"


def test_a_member_reads_allocation_and_use_of_own_pods_alone(as_user: Callable[..., Call], records: Records) -> None:
    with records.connect() as owner:
        carols = owner.execute(POD, ("hep", "carol", "hep", "pods-web1")).fetchone()
        assert carols is not None
        owner.execute(USE, carols)
        for tenant, name in (("hep", "dave"), ("bio", "carol"), (None, None)):
            owner.execute(POD, (tenant, name, "other", "pods-other"))
    carol = as_user("carol", "hep")
    (row,) = rows_of(carol("GET", "/own_pod?name=eq.pods-web1&starts=lt.2026-11-24T00:00:00Z"))
    expected = {"tenant": "hep", "namespace": "hep", "name": "pods-web1", "kind": "pod", "cpus": 2, "memory_gib": 2}
    expected |= {"cpu_hours": 6, "memory_gib_hours": 6, "card_hours": 3, "cpu_hours_used": 0.5, "card_hours_busy": 1}
    assert row.items() >= expected.items()
    assert rows_of(carol("GET", "/own_pod?order=starts.desc")) == [row]
    assert rows_of(as_user("carol")("GET", "/own_pod")) == rows_of(as_user("eve", "hep")("GET", "/own_pod")) == []
    refused(carol("POST", "/own_pod", json={"name": "x"}), 405, "no rows can be added")
    refused(carol("GET", "/own_pod?username=eq.dave"), 400, "one of the columns tenant")
    with records.connect() as owner:
        assert owner.execute("SELECT 1 FROM own_pod").fetchall() == []  # whose, nobody has reported


def test_a_member_reads_use_of_models_by_own_tenants_alone(as_user: Callable[..., Call], records: Records) -> None:
    with records.connect() as owner:
        for tenant, requests in (("hep", 3), ("bio", 5)):
            owner.execute(
                "INSERT INTO model_usage VALUES ('2026-11-23T08:00:00Z', 'hep/words', %s, %s, 30, 12)",
                (tenant, requests),
            )
    (row,) = rows_of(as_user("carol", "hep")("GET", "/tenant_model_usage?model=eq.hep/words"))
    expected = {"tenant": "hep", "model": "hep/words", "requests": 3, "tokens_in": 30, "tokens_out": 12}
    assert row.items() >= expected.items()
    assert len(rows_of(as_user("eve", "hep", "bio")("GET", "/tenant_model_usage?order=requests.desc"))) == 2
    assert rows_of(as_user("carol")("GET", "/tenant_model_usage")) == []
    refused(as_user("carol", "hep")("POST", "/tenant_model_usage", json={"model": "x"}), 405, "no rows can be added")
    with records.connect() as owner:
        assert owner.execute("SELECT 1 FROM tenant_model_usage").fetchall() == []  # whose, nobody has reported


def test_there_are_no_other_tables_and_methods(as_user: Callable[..., Call]) -> None:
    carol = as_user("carol", "hep")
    for path in ("/pod", "/reader", "/rpc", "/measurement;"):
        refused(carol("GET", path), 404, "no such table")
    refused(carol("GET", "/rpc/work"), 404)
    for method in ("PUT", "PATCH", "DELETE"):
        refused(carol(method), 405)


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_tokens_are_refused(api: Service, issuer: Issuer, forgery: str) -> None:
    signer = Signer(issuer.url, issuer.keys[0].private, issuer.keys[0].key_id)
    claims = signer.claims(AUDIENCE.name, groups=[tenant_group("hep")])
    url = f"{api.url}{AUDIENCE.path}"
    good, bad = ({"Authorization": f"Bearer {t}"} for t in (signer.sign(claims), FORGERIES[forgery](signer, claims)))
    assert requests.get(url, headers=good, timeout=60).status_code == 200
    for method in ("GET", "POST"):
        answer = requests.request(method, url, headers=bad, json={"name": "loss", "value": 1}, timeout=60)
        refused(answer, 401)
        assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]


@pytest.mark.parametrize("claims", [{"exp": None}, {"aud": None}, {"sub": None}, {"nbf": 4_000_000_000}])
def test_incomplete_tokens_are_refused(api: Service, issuer: Issuer, claims: dict[str, Any]) -> None:
    headers = {"Authorization": f"Bearer {issuer.token(**claims)}"}
    refused(requests.get(f"{api.url}{AUDIENCE.path}", headers=headers, timeout=60), 401)


def test_without_a_token_there_is_a_challenge(api: Service, issuer: Issuer) -> None:
    for value in ("", "Bearer ", "Basic dGVzdDp0ZXN0", "Bearer rubbish", "Bearer a.b.c"):
        answer = requests.get(f"{api.url}{AUDIENCE.path}", headers={"Authorization": value}, timeout=60)
        refused(answer, 401)
        assert answer.headers["WWW-Authenticate"].startswith('Bearer realm="measurements"')
    stranger = issuer.token(Key("stranger"))
    answer = requests.get(f"{api.url}{AUDIENCE.path}", headers={"Authorization": f"Bearer {stranger}"}, timeout=60)
    refused(answer, 401, "no key")


def test_the_log_has_users_and_no_tokens(as_user: Callable[..., Call], api: Service, issuer: Issuer) -> None:
    as_user("mallory", "hep")("GET")
    token = issuer.token(aud="another")
    requests.get(f"{api.url}{AUDIENCE.path}", headers={"Authorization": f"Bearer {token}"}, timeout=60)
    assert '"username": "mallory"' in api.log
    assert '"status": 401' in api.log
    for part in token.split("."):
        assert part not in api.log


def test_an_issuer_or_a_database_that_is_down_is_503(records: Records, issuer: Issuer, tmp_path: Path) -> None:
    port, silent = free_port(), Issuer(AUDIENCE.name)
    silent.available = False
    with http_server(silent.answer) as url:
        silent.url = url
        settings = {**records.environment, "ACCOUNTING_BIND_PORT": str(port), "ACCOUNTING_ISSUER": url}
        settings |= {"ACCOUNTING_DATABASE_PORT": str(free_port()), "ACCOUNTING_KEYS_REFRESH_SECONDS": "0"}
        with running(service_python("accounting"), ["-m", "accounting", "serve"], settings, port, tmp_path) as api:
            headers = {"Authorization": f"Bearer {silent.token()}"}
            for text in ("issuer", "database"):
                answer = requests.get(f"{api.url}{AUDIENCE.path}", headers=headers, timeout=60)
                refused(answer, 503, text)
                assert answer.headers["Retry-After"]
                silent.available = True


def test_the_database_itself_separates_tenants(records: Records, postgresql: PostgreSQL) -> None:
    insert = "INSERT INTO measurement (tenant, username, name, value) VALUES (%s, %s, 'loss', 1)"
    be = "SELECT set_config('accounting.tenants', %s, false), set_config('accounting.username', %s, false)"
    with records.connect() as owner:
        # as whom nobody has been named, the owner reads and writes nothing
        for tenant in ("hep", ""):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                owner.execute(insert, (tenant, ""))
        owner.execute(be, ("hep", "carol"))
        owner.execute(insert, ("hep", "carol"))
        for row in (("bio", "carol"), ("hep", "dave")):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                owner.execute(insert, row)
        assert owner.execute("UPDATE measurement SET value = 2").rowcount == 0
        assert owner.execute("DELETE FROM measurement").rowcount == 0
        owner.execute("INSERT INTO reader VALUES ('measurement_hep', 'hep'), ('measurement_bio', 'bio')")
        # readers of other tenants give the owner nothing
        owner.execute(be, ("bio", "eve"))
        assert owner.execute("SELECT 1 FROM measurement").fetchall() == []
    for role, rows in (("measurement_hep", 1), ("measurement_bio", 0)):
        postgresql.sql(f"CREATE ROLE {role} LOGIN PASSWORD '{role}-password'")
        with records.connect(role) as reader:
            reader.execute(be, ("hep", "carol"))  # only the service is believed
            assert len(reader.execute("SELECT 1 FROM measurement").fetchall()) == rows
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(insert, ("hep", "carol"))


@pytest.mark.parametrize("given", [{}, {"hostname": "figures"}])
def test_users_reach_it_where_the_site_file_has_it(
    lab_with: Callable[..., Path],
    objects_of: Callable[[CatalogueService[Any], Path], list[dict[str, Any]]],
    given: dict[str, str],
) -> None:
    objects = objects_of(SERVICE, lab_with(SERVICE, measurements=given))
    (ingress,) = (o["spec"]["rules"] for o in objects if o["kind"] == "Ingress")
    assert [rule["host"] for rule in ingress] == [f"{given.get('hostname', 'accounting')}.lab.strata.test"]
    collector, api = (
        next(o for o in objects if (o["kind"], o["metadata"]["name"]) == ("Deployment", name))["spec"]
        for name in ("accounting", "accounting-measurements")
    )
    labels = api["template"]["metadata"]["labels"]
    assert not collector["selector"]["matchLabels"].items() <= labels.items()
    # the site's issuer admits pods with it
    assert labels["app.kubernetes.io/part-of"] == "strata"
    (serve,) = api["template"]["spec"]["containers"]
    environment = {entry["name"]: entry["value"] for entry in serve["env"]}
    assert environment["ACCOUNTING_ISSUER"] == "https://login.lab.strata.test/realms/strata"
    assert environment["ACCOUNTING_MAXIMUM_BYTES"] == "1000000"


def test_without_the_setting_there_is_no_api(
    lab_with: Callable[..., Path], objects_of: Callable[[CatalogueService[Any], Path], list[dict[str, Any]]]
) -> None:
    kinds = [o["kind"] for o in objects_of(SERVICE, lab_with(SERVICE))]
    assert (kinds.count("Deployment"), kinds.count("Ingress"), kinds.count("NetworkPolicy")) == (1, 0, 1)
