"""What the checks and tests of services share."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from strata.catalogue.discovery import services
from strata.catalogue.service import Service, ServiceContext
from strata.platform.releases import PlatformState, releases, service_context
from strata.site.outputs import CloudOutputs, ImageOutputs, InstanceOutput
from strata.site.paths import REPOSITORY
from strata.site_file.loader import load_site
from strata.toolchain import load_versions
from strata.toolchain.charts import chart_directory
from strata_bench.made_up_secrets import MadeUpSecrets

if TYPE_CHECKING:
    from testinfra.host import Host

DIGEST = "sha256:" + "0" * 64


@pytest.fixture(scope="session")
def host(site_host: Callable[[str], Host]) -> Callable[[str], Host]:
    """`host("services-1")`; here and not in the plugin, where testinfra's own fixture of that name would win."""
    return site_host


@pytest.fixture
def fake_secrets() -> MadeUpSecrets:
    """Of the tests of services; the checks use the running site's."""
    return MadeUpSecrets()


@pytest.fixture
def lab() -> Path:
    """The lab's site file."""
    return REPOSITORY / "inventories" / "lab" / "site.yaml"


@pytest.fixture
def lab_with(lab: Path, tmp_path: Path) -> Callable[..., Path]:
    """`lab_with(SERVICE, replicas=2)` → the lab's site file with that service."""

    def of(service: Service[Any], **settings: object) -> Path:
        directory = tmp_path / "lab"
        shutil.copytree(lab.parent, directory, dirs_exist_ok=True)
        content = yaml.safe_load(lab.read_text())
        content["platform"]["services"][service.key] = settings
        (directory / "site.yaml").write_text(yaml.safe_dump(content))
        return directory / "site.yaml"

    return of


@pytest.fixture
def state(fake_secrets: MadeUpSecrets) -> Callable[[Path], PlatformState]:
    """`state(site_file)` → a site as if all its instances ran and all its images were pushed."""

    def of(site_file: Path) -> PlatformState:
        site = load_site(site_file)
        instances = {
            i.name: InstanceOutput(id=i.name, name=i.name, address=f"10.0.0.{n}", flavor=i.flavor, roles=tuple(i.roles))
            for n, i in enumerate(site.cloud.instances if site.cloud else (), 10)
        }
        own = [name for service in services() for name in service.image_folders]
        others = ("gpu-device-plugin", "pause", "pod-base", "traefik")
        names = [*(release.chart for release in releases(site)), *own, *others]
        images = ImageOutputs(images={name: f"registry.example.org:5000/strata/{name}@{DIGEST}" for name in names})
        return PlatformState(site, site_file, CloudOutputs(instances=instances, networks={}), images, fake_secrets)

    return of


@pytest.fixture
def context_of(state: Callable[[Path], PlatformState]) -> Callable[[Service[Any], Path], ServiceContext[Any]]:
    """`context_of(SERVICE, site_file)` → what the functions of a service are given."""
    return lambda service, site_file: service_context(service, state(site_file))


@pytest.fixture
def values_of(state: Callable[[Path], PlatformState]) -> Callable[[Service[Any], Path], dict[str, Any]]:
    """`values_of(SERVICE, site_file)` → the values of its release, which its chart accepts."""

    def of(service: Service[Any], site_file: Path) -> dict[str, Any]:
        site_state = state(site_file)
        (release,) = (release for release in releases(site_state.site) if release.name == service.name)
        values = release.values(site_state)
        render(release.chart, values)
        return values

    return of


def render(chart: str, values: dict[str, Any], namespace: str = "default") -> list[dict[str, Any]]:
    """The objects of a chart, by the real helm."""
    directory = (
        chart_directory(chart, substitutes=True) if chart in load_versions().charts else REPOSITORY / "helm" / chart
    )
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("helm")),
            "template",
            chart,
            str(directory),
            "-f",
            "-",
            "--namespace",
            namespace,
        ],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [item for item in yaml.safe_load_all(done.stdout) if item]


@pytest.fixture
def objects_of(
    values_of: Callable[[Service[Any], Path], dict[str, Any]],
) -> Callable[[Service[Any], Path], list[dict[str, Any]]]:
    """`objects_of(SERVICE, site_file)` → the objects of its release."""
    return lambda service, site_file: render(service.name, values_of(service, site_file))


@pytest.fixture
def releases_of(state: Callable[[Path], PlatformState]) -> Callable[..., dict[str, list[dict[str, Any]]]]:
    """`releases_of(site_file, CHART, …)` → the objects of the charts' releases, by the release's name."""

    def of(site_file: Path, *charts: str) -> dict[str, list[dict[str, Any]]]:
        site_state = state(site_file)
        chosen = [release for release in releases(site_state.site) if release.chart in charts]
        return {
            release.name: render(release.chart, release.values(site_state), release.namespace) for release in chosen
        }

    return of
