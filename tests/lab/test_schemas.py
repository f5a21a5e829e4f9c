"""OpenStack's schemas: migrated once per release and machine, then loaded; judged by the controller's MariaDB."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from strata.access.podman import PodmanError
from strata.site.context import SiteContext

from .healing import in_controller
from .lab_site import require_lab

pytestmark = pytest.mark.nightly

FIRST, SECOND = "schema_test_first", "schema_test_second"
DIRECTORY = "/tmp/schema-test"  # noqa: S108  # of the controller's container
MIGRATE = "CREATE TABLE IF NOT EXISTS migrated (id INT PRIMARY KEY); INSERT IGNORE INTO migrated VALUES (7)"
IMPOSSIBLE = "SELECT * FROM nothing.migrates"
SAME = ("placement", "glance", "keystone", "neutron", "nova", "nova_api")


@pytest.fixture
def databases(context: SiteContext) -> Iterator[SiteContext]:
    """Two databases that nobody uses, empty; removed afterwards."""
    require_lab(context)
    drop = f"DROP DATABASE IF EXISTS {FIRST}; DROP DATABASE IF EXISTS {SECOND};"
    create = f"CREATE DATABASE {FIRST} CHARACTER SET latin2; CREATE DATABASE {SECOND} CHARACTER SET utf8mb3;"
    in_controller(context, "mkdir", "--parents", DIRECTORY)
    in_controller(context, "mariadb", "--execute", drop + create)
    yield context
    in_controller(context, "mariadb", "--execute", drop)
    in_controller(context, "rm", "--recursive", DIRECTORY)


def prepare(context: SiteContext, migrate: str = MIGRATE, path: str = "/usr/sbin:/usr/bin:/sbin:/bin") -> None:
    """Runs what the units of the schemas run."""
    in_controller(
        context,
        *("env", f"STATE_DIRECTORY={DIRECTORY}", f"PATH={path}", "/usr/local/lib/openstack/prepare_schema.sh", "root"),
        *(f"{DIRECTORY}/kept", FIRST, f"{SECOND}={FIRST}", "--", "mariadb", FIRST, "--execute", migrate),
    )


def ask(context: SiteContext, database: str, query: str) -> str:
    """What MariaDB answers."""
    return in_controller(context, "mariadb", "--batch", "--skip-column-names", database, "--execute", query)


def test_the_first_migrates_and_the_next_loads(databases: SiteContext) -> None:
    """Also into the database of the same schema; each keeps its character set."""
    prepare(databases)
    assert ask(databases, FIRST, "SELECT id FROM migrated") == "7"
    assert in_controller(databases, "ls", "--almost-all", f"{DIRECTORY}/kept") == f"{FIRST}.sql"
    ask(databases, FIRST, "DROP TABLE migrated")
    prepare(databases, migrate=IMPOSSIBLE)
    for name, character_set in ((FIRST, "latin2"), (SECOND, "utf8mb3")):
        assert ask(databases, name, "SELECT id FROM migrated") == "7"
        assert character_set in ask(databases, name, f"SHOW CREATE DATABASE {name}")


def test_data_stays(databases: SiteContext) -> None:
    """A database with tables is migrated, and what it holds is never kept."""
    prepare(databases)
    kept = in_controller(databases, "cat", f"{DIRECTORY}/kept/{FIRST}.sql")
    ask(databases, FIRST, "INSERT INTO migrated VALUES (8)")
    prepare(databases)
    assert ask(databases, FIRST, "SELECT id FROM migrated").split() == ["7", "8"]
    assert in_controller(databases, "cat", f"{DIRECTORY}/kept/{FIRST}.sql") == kept


def test_a_load_that_was_cut_off_restarts(databases: SiteContext) -> None:
    prepare(databases)
    ask(databases, FIRST, "DROP TABLE migrated; CREATE TABLE half (id INT)")
    in_controller(databases, "touch", f"{DIRECTORY}/schema.loading")
    prepare(databases, migrate=IMPOSSIBLE)
    assert ask(databases, FIRST, "SHOW TABLES") == "migrated"
    prepare(databases)  # and it is no longer called cut off
    with pytest.raises(PodmanError):
        prepare(databases, migrate=IMPOSSIBLE)


def test_no_answer_is_not_empty(databases: SiteContext) -> None:
    """Where MariaDB does not respond nothing is loaded over what may be data."""
    prepare(databases)
    client = f"{DIRECTORY}/mariadb"
    in_controller(databases, "cp", "/usr/bin/false", client)
    with pytest.raises(PodmanError):
        prepare(databases, path=f"{DIRECTORY}:/usr/bin:/bin")
    in_controller(databases, "rm", client)
    assert ask(databases, FIRST, "SELECT id FROM migrated") == "7"
    with pytest.raises(PodmanError):
        in_controller(databases, "test", "-e", f"{DIRECTORY}/schema.loading")


@pytest.mark.parametrize("name", SAME)
def test_what_is_kept_is_what_the_site_has(context: SiteContext, name: str) -> None:
    """The tables of the running site and those of the file are the same, to the last column."""
    require_lab(context)
    tables = in_controller(context, "mariadb-dump", "--no-data", "--no-tablespaces", "--skip-dump-date", name)
    unit = "nova" if name == "nova_api" else name
    start = in_controller(context, "grep", "prepare_schema.sh", f"/etc/systemd/system/{unit}-schema.service")
    kept = in_controller(context, "cat", f"{start.split()[2]}/{name}.sql")
    assert definitions(tables)
    assert definitions(tables) == definitions(kept)


def definitions(dump: str) -> list[str]:
    """The statements that make tables; without the next number, which depends on the data."""
    statements = [s.strip() for s in dump.split(";\n") if s.strip().startswith("CREATE TABLE")]
    return [" ".join(w for w in s.split() if not w.startswith("AUTO_INCREMENT=")) for s in statements]
