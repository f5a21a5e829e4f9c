"""The catalogue: services are found in their folders, and named nowhere else."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.catalogue.discovery import services
from strata.catalogue.needs import Client, Database
from strata.catalogue.service import Service
from strata.catalogue.site_needs import databases
from strata.catalogue.site_services import needed
from strata.platform.releases import service_context
from strata.site.paths import REPOSITORY
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError
from strata.toolchain import load_versions
from strata.toolchain.charts import chart_directory

from ..platform.test_values import SITES, state_of

PRODUCT = ("src", "pulumi", "ansible", "scripts", ".ci", "pyproject.toml", "versions.yaml")


@pytest.mark.parametrize("service", services(), ids=lambda service: service.name)
def test_a_service_is_named_in_its_folders_only(service: Service[Any]) -> None:
    # as it is written in kebab, snake and camel case, and in capitals
    pattern = "[-_ ]?".join(f"({word}|{word.capitalize()}|{word.upper()})" for word in service.name.split("-"))
    done = subprocess.run(
        ["git", "grep", "--line-number", "--extended-regexp", pattern, "--", *PRODUCT],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    # a service with a chart of another project has its name
    pinned = f":  {service.name}:"
    # the toolchain builds a Go module
    built = "versions.yaml:" if (service.folder / "go.mod").exists() else pinned
    lines = [line for line in done.stdout.splitlines() if not line.startswith(built)]
    assert [line for line in lines if not line.endswith(pinned)] == []


@pytest.mark.parametrize("service", services(), ids=lambda service: service.name)
def test_a_service_is_complete(service: Service[Any]) -> None:
    assert (service.folder / "README.md").read_text().startswith("# ")
    own = REPOSITORY / "helm" / service.name
    chart = chart_directory(service.name, substitutes=True) if service.name in load_versions().charts else own
    assert chart is not None
    assert (chart / "values.schema.json").is_file()
    assert list((service.folder / "checks").glob("test_*.py"))
    assert service.section.__doc__
    assert re.fullmatch("[a-z][a-z0-9-]*", service.name)


def test_databases_of_services_need_no_entry_in_the_site_file() -> None:
    site = load_site(find_site("lab"))
    assert site.hosts.postgresql is None
    own = {need.name for _, need in needed(site, Database)}
    assert own
    assert own < set(databases(site))


def test_a_need_that_is_not_declared_is_refused() -> None:
    state = state_of(SITES["lab"])
    for service, _ in needed(state.site, Database):
        with pytest.raises(LookupError, match="needs do not declare"):
            service_context(service, state).provide(Database("another"))


def test_two_issuers_are_refused(tmp_path: Path) -> None:
    content = yaml.safe_load(SITES["lab"].read_text())
    content["platform"]["services"]["external_issuer"] = {"url": "https://login.example.org"}
    for name in SITES["lab"].parent.iterdir():
        (tmp_path / name.name).write_text(name.read_text() if name.is_file() else "")
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(SiteError, match="services accept the tokens of one issuer"):
        load_site(tmp_path / "site.yaml")


def test_a_client_is_registered_with_the_site_s_issuer(monkeypatch: pytest.MonkeyPatch) -> None:
    state = state_of(SITES["lab"])
    client = Client("notebooks", ("ml-hub",))
    accepting, *_ = [service for service, _ in needed(state.site, Database)]
    other = replace(accepting, needs=lambda settings: (*accepting.needs(settings), client))
    table = tuple(other if service is accepting else service for service in services())
    monkeypatch.setattr("strata.catalogue.site_services.services", lambda: table)
    (issuer,) = [service for service in services() if service.issuer is not None]
    texts = service_context(issuer, state).secret_data().values()
    assert any('"notebooks"' in text and state.secrets.get(client.secret) in text for text in texts)
    assert service_context(other, state).secret_data()[client.secret] == state.secrets.get(client.secret)
