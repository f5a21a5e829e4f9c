"""The rendered configurations, read by OpenStack's own parsers."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

COMMON = (
    *("oslo.log", "oslo.messaging", "oslo.db", "oslo.concurrency", "oslo.cache", "oslo.middleware"),
    *("oslo.policy", "oslo.service.service", "oslo.service.wsgi", "keystonemiddleware.auth_token"),
)
CREDENTIALS = {
    *("auth_type", "auth_url", "username", "password"),
    *("project_name", "user_domain_name", "project_domain_name"),
}
"""Options that keystoneauth registers when it reads auth_type; the validator knows them in some sections only."""


@dataclass(frozen=True)
class Configuration:
    """One file and what the validator needs to know for it.

    Args:
        file: below /etc.
        namespaces: of options, beside those of oslo.
        excluded: groups that are registered by code, not by a namespace.
        with_credentials: groups with keystoneauth's options.
    """

    file: str
    namespaces: tuple[str, ...]
    excluded: tuple[str, ...] = ()
    with_credentials: tuple[str, ...] = ()


CONFIGURATIONS = [
    Configuration("keystone/keystone.conf", ("keystone",)),
    Configuration("placement/placement.conf", ("placement.conf",)),
    Configuration(
        "glance/glance-api.conf",
        ("glance.api", "glance.store", "glance.multi_store"),
        # one group per store, named by enabled_backends, and two reserved ones
        excluded=("files", "os_glance_staging_store", "os_glance_tasks_store"),
    ),
    Configuration(
        "neutron/neutron.conf",
        ("neutron", "neutron.db", "neutron.api"),
        with_credentials=("nova", "placement"),
    ),
    Configuration("neutron/plugins/ml2/ml2_conf.ini", ("neutron.ml2",), excluded=("lab",)),
    Configuration(
        "nova/nova.conf", ("nova.conf",), with_credentials=("glance", "neutron", "placement", "service_user")
    ),
    Configuration("nova/nova-database.conf", ("nova.conf",)),
    Configuration("nova/nova-scheduler.conf", ("nova.conf",)),
    Configuration("nova/compute-compute-gpu-1.conf", ("nova.conf",), excluded=("lab",)),
]


# reads `{name: arguments}` and writes `{name: what oslo-config-validator says on standard error}`, JSON
VALIDATOR = """
import contextlib, io, json, logging, sys, traceback
from oslo_config import validator

said = {}
for name, arguments in json.load(sys.stdin).items():
    logging.getLogger().handlers.clear()  # so that main() sets up logging as in a process of its own
    sys.argv = ["oslo-config-validator", *arguments]
    with contextlib.redirect_stderr(io.StringIO()) as log:
        try:
            validator.main()
        except (Exception, SystemExit):
            traceback.print_exc()
    said[name] = log.getvalue()
print(json.dumps(said))
"""
MISSPELT = "nova/misspelt"


@pytest.fixture(scope="module")
def said(openstack_python: Path, rendered: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the validator states of each file; loading the services takes seconds, so as few processes as can be.

    neutron has its own: it does not load beside glance, as both register the option `backlog`.
    """
    misspelt = tmp_path_factory.mktemp("misspelt") / "nova.conf"
    misspelt.write_text("[DEFAULT]\nmy_ipp = 10.0.0.1\n")
    cases: dict[str, dict[str, list[str]]] = {"neutron": {}, "others": {}}
    for configuration in CONFIGURATIONS:
        arguments = ["--input-file", str(rendered / "etc" / configuration.file)]
        for namespace in (*COMMON, *configuration.namespaces):
            arguments += ["--namespace", namespace]
        for group in configuration.excluded:
            arguments += ["--exclude-group", group]
        cases["neutron" if configuration.file.startswith("neutron/") else "others"][configuration.file] = arguments
    # last, so that it also shows that the files before it hide nothing
    cases["others"][MISSPELT] = ["--input-file", str(misspelt), "--namespace", "nova.conf"]
    values: dict[str, str] = {}
    for of_a_process in cases.values():
        command = [str(openstack_python), "-c", VALIDATOR]
        done = subprocess.run(command, input=json.dumps(of_a_process), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        assert "Traceback" not in done.stderr, done.stderr[-3000:]
        values |= json.loads(done.stdout.splitlines()[-1])
    return values


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda c: c.file)
def test_every_option_is_known(configuration: Configuration, said: dict[str, str]) -> None:
    """oslo-config-validator finds no option that the service does not have, and none that is deprecated."""
    text = said[configuration.file]
    problems = re.findall(r"^(?:ERROR|WARNING):root:(.*)$", text, re.MULTILINE)
    allowed = {
        f"{group}/{option} is not part of the sample config"
        for group in configuration.with_credentials
        for option in CREDENTIALS
    }
    assert [p for p in problems if p not in allowed] == []
    assert "Traceback" not in text, text[-2000:]


def test_validator_would_notice(said: dict[str, str]) -> None:
    """The validator refuses a misspelt option, so the checks above can fail."""
    assert "ERROR:root:DEFAULT/my_ipp is not part of the sample config" in said[MISSPELT]


def test_only_the_conductor_side_reaches_the_databases(rendered: Path) -> None:
    """nova-compute's files name no database, and its units read no other."""
    files = [rendered / "etc/nova/nova.conf", *sorted((rendered / "etc/nova").glob("compute-*.conf"))]
    assert len(files) == 3
    for file in files:
        assert "mysql" not in file.read_text(), file
    unit = (rendered / "etc/systemd/system/nova-compute@.service").read_text()
    assert re.findall(r"--config-file (\S+)", unit) == ["/etc/nova/nova.conf", "/etc/nova/compute-%i.conf"]


@pytest.mark.parametrize(
    ("service", "file"),
    [
        *(("keystone", "keystone.conf"), ("placement", "placement.conf"), ("glance", "glance-api.conf")),
        *(("neutron", "neutron.conf"), ("nova", "nova-database.conf")),
    ],
)
def test_threads_of_an_api_do_not_wait_for_each_others_connections(rendered: Path, service: str, file: str) -> None:
    """keystone was seen to need two for a request, with a third in reserve; eight threads with fifteen stalled."""
    threads = re.search(r"^threads = (\d+)$", (rendered / "etc" / service / "gunicorn.py").read_text(), re.MULTILINE)
    assert threads
    parser = configparser.RawConfigParser(strict=False)
    parser.read(rendered / "etc" / service / file)
    options = parser["placement_database" if service == "placement" else "database"]
    assert int(options["max_pool_size"]) + int(options["max_overflow"]) >= 3 * int(threads[1])


def test_no_password_on_a_command_line(rendered: Path) -> None:
    """No unit carries a secret: they are in files that only their reader may open."""
    seed = json.loads((rendered / "etc/openstack/identity.json").read_text())
    secrets = {seed["admin_password"], *(service["password"] for service in seed["services"])}
    secrets |= set(re.findall(r"IDENTIFIED BY '([^']+)'", (rendered / "etc/openstack/databases.sql").read_text()))
    assert len(secrets) == 10
    for unit in sorted((rendered / "etc/systemd/system").rglob("*")):
        if unit.is_file():
            assert not [s for s in secrets if s in unit.read_text()], unit


def test_services_share_their_passwords(rendered: Path) -> None:
    """What keystone and MariaDB are reported is what each service uses."""
    seed = json.loads((rendered / "etc/openstack/identity.json").read_text())
    passwords = {service["name"]: service["password"] for service in seed["services"]}
    for name, file in {
        "nova": "nova/nova.conf",
        "glance": "glance/glance-api.conf",
        "neutron": "neutron/neutron.conf",
        "placement": "placement/placement.conf",
    }.items():
        parser = configparser.RawConfigParser(strict=False)
        parser.read(rendered / "etc" / file)
        assert parser["keystone_authtoken"]["username"] == name
        assert parser["keystone_authtoken"]["password"] == passwords[name]


def test_units_are_what_systemd_reads(rendered: Path, tmp_path: Path) -> None:
    """systemd-analyze finds no unknown key and no bad value in any unit."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not installed on this machine")
    names = [u for u in (rendered / "etc/systemd/system").iterdir() if u.suffix == ".service" and "@" not in u.name]
    said = subprocess.run(
        [program, "verify", "--recursive-errors=no", "--man=no", *map(str, names)],
        capture_output=True,
        text=True,
        check=False,
    ).stderr
    ours = [line for line in said.splitlines() if str(rendered) in line and "is not executable" not in line]
    assert ours == []
