"""Backups in a site file: complete, or reported what is missing where."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml

from strata.catalogue.backup_items import backup_items
from strata.inventory import Template
from strata.inventory.role_variables import role_host_variables, role_variables
from strata.roles import DIRECTORY
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site
from strata.site_file.problems import Problem

SECTION = "backup: {url: 'https://s3.example.org/', bucket: site-backups}"
SECRETS = "".join(
    f"  - {{name: backup_{name}, source: environment}}\n" for name in ("access_key", "secret_key", "password")
)
OWN = re.search(r"^  (backup: .*)$", find_site("lab").read_text(), re.MULTILINE)
"""The lab's own section."""
NO_ROLE = ("load_balancer, backup]", "load_balancer]")


def with_backup(section: str, secrets: str) -> tuple[tuple[str, str], ...]:
    """Edits that put them in the place of the lab's own."""
    assert OWN is not None
    return ((OWN[1], section), ("\nplatform:", f"\nsecrets:\n{secrets}\nplatform:"))


@pytest.fixture
def problems(
    site_file: Callable[..., Path], problems_of: Callable[[Path], Sequence[Problem]]
) -> Callable[..., list[Problem]]:
    """`problems(section, secrets, *edits)` → of the lab with these."""

    def of(section: str = SECTION, secrets: str = SECRETS, *edits: tuple[str, str]) -> list[Problem]:
        return list(problems_of(site_file(*with_backup(section, secrets), *edits)))

    return of


@pytest.mark.parametrize(
    ("section", "secrets", "edits", "key", "why", "fix"),
    [
        (SECTION, SECRETS, (NO_ROLE,), "hosts.backup", "needs a host with the role backup", "give a host"),
        (
            SECTION,
            SECRETS,
            (
                ("[nfs_server, postgresql,", "[nfs_server,"),
                ("roles: [kube_control_plane]", "roles: [kube_control_plane, postgresql]"),
            ),
            "cloud.instances[1].roles",
            "control-1 stores database/",
            "add backup",
        ),
        (
            SECTION,
            SECRETS.replace("backup_password", "other"),
            (),
            "hosts.backup",
            "backup_password must be provided",
            "{name: backup_password, source: file",
        ),
        (
            SECTION.replace("}", ", exclude: [export/scratch]}"),
            SECRETS,
            (),
            "hosts.backup.exclude[0]",
            "is neither an export nor a database",
            "export/data",
        ),
        (
            SECTION.replace("site-backups", "Site_Backups"),
            SECRETS,
            (),
            "hosts.backup.bucket",
            "3 to 63 lower-case letters",
            "site-backups",
        ),
        (
            SECTION.replace("https://s3.example.org/", "https://192.0.2.7").replace("}", ", postgresql: {}}"),
            SECRETS,
            (),
            "hosts.backup.url",
            "192.0.2.7 is an address",
            "the endpoint's name",
        ),
        (
            SECTION.replace("}", ", postgresql: {interval: 5}}"),
            SECRETS,
            (),
            "hosts.backup.postgresql.interval",
            "does not divide a day",
            "1, 2, 3, 4, 6, 8, 12 or 24",
        ),
        (SECTION.replace("}", ", hour: 24}"), SECRETS, (), "hosts.backup.hour", "23", ""),
        (
            SECTION,
            SECRETS,
            (("roles: [kube_control_plane]", "roles: [kube_control_plane, backup]"),),
            "cloud.instances[1].roles",
            "stores no export and no database",
            "remove backup",
        ),
    ],
)
def test_an_error_is_reported_with_its_fix(
    problems: Callable[..., list[Problem]],
    section: str,
    secrets: str,
    edits: Sequence[tuple[str, str]],
    key: str,
    why: str,
    fix: str,
) -> None:
    (problem,) = problems(section, secrets, *edits)
    assert problem.key == key
    assert why in problem.why
    assert fix in problem.fix


def test_only_the_labs_own_store_has_generated_secrets(problems: Callable[..., list[Problem]]) -> None:
    assert OWN is not None
    other = "  - {name: other, source: environment}\n"
    assert problems(OWN[1], other) == []
    reported = problems(SECTION, other)
    assert [(problem.key, "must be provided" in problem.why) for problem in reported] == [("hosts.backup", True)] * 3


def test_the_role_and_its_section_need_each_other(
    site_file: Callable[..., Path], problems_of: Callable[[Path], Sequence[Problem]]
) -> None:
    assert OWN is not None
    (problem,) = problems_of(site_file((f"  {OWN[1]}\n", "")))
    assert "hosts.backup does not say" in problem.why


def test_each_host_backs_up_what_it_stores_with_secrets_by_lookup(site_file: Callable[..., Path]) -> None:
    section = SECTION.replace("}", ", exclude: [export/data], ca_file: ca.pem, keep: {daily: 3}}")
    file = site_file(*with_backup(section, SECRETS))
    (file.parent / "ca.pem").write_text("PEM")
    site = load_site(file)
    variables = role_variables("backup", site, None)
    own = role_host_variables("backup", site, "services-1")
    items = own["backup_items"]
    assert items == backup_items(site, ("nfs_server", "postgresql"))
    assert isinstance(items, dict)
    assert "export/data" not in items
    assert items["export/homes"] == "/srv/nfs/volumes/homes"
    assert items["database/kine"] == "kine"
    assert variables["backup_keep"] == {"daily": 3, "weekly": 5, "monthly": 12}
    environment = variables["backup_environment"]
    assert isinstance(environment, dict)
    assert environment["RESTIC_REPOSITORY"] == Template(
        "s3:https://s3.example.org/site-backups/lab/{{ inventory_hostname }}"
    )
    for name in ("RESTIC_PASSWORD", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        assert "lookup('strata_secret', 'backup_" in environment[name].expression
    options = yaml.safe_load((DIRECTORY / "backup" / "meta" / "argument_specs.yml").read_text())
    described = set(options["argument_specs"]["main"]["options"])
    assert {*variables, *own} == described
    assert set(yaml.safe_load((DIRECTORY / "backup" / "defaults" / "main.yml").read_text())) == described
