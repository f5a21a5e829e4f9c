"""pytest plugin with the fixtures that several folders of tests share."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.toolchain import bin_directory, tools_environment
from strata.verify.plugin import needs_site
from strata_bench.api_server import ApiServer
from strata_bench.api_server import api_server as running_api_server
from strata_bench.helm import Helm
from strata_bench.services import PostgreSQL, find_postgresql, postgresql_cluster


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With pytest-xdist (`--dist loadgroup`), whatever asks for the running site stays on one worker, one after the
    other: tests that break it must not meet tests that check it. What asks for the API server does: one is enough for
    the services' tests, and one for all others.

    So do the contract tests of a folder, the tests of a service, and the tests of a module that share a fixture, where
    they are in no group: what they share is set up once.
    """
    for item in items:
        if needs_site(item):
            item.add_marker(pytest.mark.xdist_group("site"))
        elif "api_server" in getattr(item, "fixturenames", ()):
            of = "-of-services" if item.nodeid.startswith("services/") else ""
            item.add_marker(pytest.mark.xdist_group(f"api-server{of}"))
        elif item.get_closest_marker("xdist_group") is None and (group := _place(item)):
            item.add_marker(pytest.mark.xdist_group(group))


def _place(item: pytest.Item) -> str | None:
    """The folder or module whose tests stay together; None for a test that may run anywhere."""
    module = item.nodeid.partition("::")[0]
    if match := re.match(r"tests/contract/\w+(?=/)|services/[\w-]+(?=/)", module):
        return match[0]
    return module if _shares(item) else None


def _shares(item: pytest.Item) -> bool:
    """Whether a test asks for a fixture of its module's scope."""
    information = getattr(item, "_fixtureinfo", None)
    fixtures = information.name2fixturedefs if information else {}
    return any(definitions[-1].scope == "module" for definitions in fixtures.values())


@pytest.fixture
def state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state directory of all sites, for this test alone: the test's temporary directory."""
    monkeypatch.setenv("STRATA_STATE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """A running PostgreSQL of the tests' own."""
    binaries = find_postgresql()
    if binaries is None:
        pytest.skip("no PostgreSQL server here (Debian package postgresql)")
    with postgresql_cluster(binaries) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def tools() -> dict[str, str]:
    """Files of the binaries that these tests run; skips where one has not been built yet."""
    path = tools_environment()["PATH"]
    programs = {name: shutil.which(name, path=path) for name in ("kine", "kube-apiserver", "kubectl", "helm", "pulumi")}
    missing = [name for name, file in programs.items() if file is None]
    if missing:
        pytest.skip(f"not in {bin_directory()}: {', '.join(missing)}; `strata doctor --fetch` or `strata up` gets them")
    return {name: str(file) for name, file in programs.items()}


@pytest.fixture(scope="session")
def api_server(tools: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """One for all tests of the session; tests keep to namespaces of their own."""
    with running_api_server(tools, tmp_path_factory.mktemp("apiserver")) as server:
        yield server


@pytest.fixture(scope="session")
def helm() -> Helm:
    """The helm of the Python environment."""
    return Helm(Path(sys.executable).with_name("helm"))
