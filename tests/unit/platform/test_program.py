"""What pulumi/platform asks a cluster for, recorded without one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pulumi
import pytest

from strata.catalogue.site_services import installed
from strata.platform.releases import releases
from strata.site.outputs import CloudOutputs, ImageOutputs
from strata.site.paths import REPOSITORY, SitePaths
from strata.site.secrets import SecretStore
from strata.site_file.loader import load_site
from strata.toolchain import charts, load_versions
from strata.toolchain.charts import chart_directory

from ..cloud.recorder import Recorder, run_program
from .test_values import CLUSTER_SITES, IMAGES, SITES, outputs

RELEASE = "kubernetes:helm.sh/v3:Release"


def stand(site: str, *, images: ImageOutputs | None = IMAGES) -> SitePaths:
    """State as the layers below leave it."""
    paths = SitePaths(site).create()
    cloud = outputs(load_site(SITES[site]))
    if cloud is not None:
        cloud.save(paths)
    if images is not None:
        images.save(paths)
    return paths


@pytest.fixture(autouse=True)
def _state(state_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STRATA_SITE_FILE", raising=False)


@pytest.mark.parametrize("site", CLUSTER_SITES)
def test_only_releases(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stand(site)
    # `up` has fetched them
    at_hand = [replace(chart, path=chart.path or charts.SUBSTITUTES, source="mirror") for chart in charts.report()]
    monkeypatch.setattr(charts, "report", lambda *_: at_hand)
    recorder = Recorder()
    result = run_program("platform", site, recorder)
    custom = {key for key in recorder.resources if not key[0].startswith(("strata:", "pulumi:"))}
    names = [release.name for release in releases(load_site(SITES[site]))]
    assert custom == {(RELEASE, name) for name in names}
    assert result["releases"] == names


def test_lab_releases() -> None:
    paths = stand("lab")
    recorder = Recorder()
    run_program("platform", "lab", recorder)
    resources = recorder.resources
    assert resources["pulumi:providers:kubernetes", "cluster"]["kubeconfig"] == str(paths.kubeconfig)
    site = load_site(SITES["lab"])
    for service in installed(site):
        release = resources[RELEASE, service.name]
        upstream = service.name in load_versions().charts
        chart = chart_directory(service.name, substitutes=True) if upstream else REPOSITORY / "helm" / service.name
        assert (REPOSITORY / "pulumi" / "platform" / release["chart"]).resolve() == chart
        assert release["namespace"] == service.namespace_of(site)
        assert release["atomic"] is True
        if upstream:
            assert "@sha256" in str(release["values"])
        else:
            assert release["values"]["image"]["digest"].startswith("sha256:")
        assert recorder.providers[RELEASE, service.name].split("::")[-2] == "cluster"
    assert resources[RELEASE, "tenant-research"]["values"]["namespace"] == "research"


def test_no_secret_goes_to_pulumi() -> None:
    stand("lab")
    recorder = Recorder()
    run_program("platform", "lab", recorder)
    known = set(SecretStore.open("lab").known().values())
    assert len(known) > 1
    assert not set(_texts(list(recorder.resources.values()))) & known


def _texts(value: object) -> list[str]:
    """All strings in a nested value."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


def test_before_the_cluster_layer_it_reports_it() -> None:
    stand("lab", images=None)
    with pytest.raises(pulumi.RunError, match="no images have been pushed"):
        run_program("platform", "lab", Recorder())
    assert CloudOutputs.load(SitePaths("lab")) is not None
