"""What pulumi/platform asks a cluster for, recorded without one."""

from __future__ import annotations

from pathlib import Path

import pulumi
import pytest

from strata.models import load_site
from strata.platform.releases import release_names
from strata.site.outputs import CloudOutputs, ImageOutputs
from strata.site.paths import SitePaths
from strata.site.secrets import SecretStore

from ..cloud.recorder import Recorder, run_program
from .test_values import CLUSTER_SITES, IMAGES, SITES, outputs

RELEASE = "kubernetes:helm.sh/v3:Release"
SECRET_MARK = "4dabf18193072939515e22adb298388d"


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
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("STRATA_SITE_FILE", raising=False)


@pytest.mark.parametrize("site", CLUSTER_SITES)
def test_only_releases(site: str) -> None:
    stand(site)
    recorder = Recorder()
    result = run_program("platform", site, recorder)
    custom = {key for key in recorder.resources if not key[0].startswith(("strata:", "pulumi:"))}
    names = release_names(load_site(SITES[site]))
    assert custom == {(RELEASE, name) for name in names}
    assert result["releases"] == names


def test_lab_releases() -> None:
    paths = stand("lab")
    recorder = Recorder()
    run_program("platform", "lab", recorder)
    found = recorder.resources
    assert found["pulumi:providers:kubernetes", "cluster"]["kubeconfig"] == str(paths.kubeconfig)
    hub = found[RELEASE, "ml-hub"]
    assert hub["chart"] == "../../helm/ml-hub"
    assert hub["namespace"] == "strata-system"
    assert hub["atomic"] is True
    # the SDK wraps all values of a release as soon as one of them is secret
    assert hub["values"]["value"]["image"]["digest"].startswith("sha256:")
    assert found[RELEASE, "traefik"]["chart"].endswith("/traefik")
    assert found[RELEASE, "tenant-research"]["values"]["namespace"] == "research"
    assert recorder.providers[RELEASE, "ml-hub"].split("::")[-2] == "cluster"


def test_secrets_go_to_pulumi_as_secrets() -> None:
    stand("lab")
    recorder = Recorder()
    run_program("platform", "lab", recorder)
    known = SecretStore.open("lab").known()
    for name, secret in (("ml-hub", "ml_hub_database_password"), ("token-issuer", "token_issuer_signing_key")):
        values = recorder.resources[RELEASE, name]["values"]
        assert values[SECRET_MARK] == "1b47061264138c4ac30d75fd1eb44270"
        assert known[secret] in _texts(values["value"])
    in_the_clear = [
        inputs for (_, name), inputs in recorder.resources.items() if name not in ("ml-hub", "token-issuer")
    ]
    assert not set(_texts(in_the_clear)) & set(known.values())


def _texts(value: object) -> list[str]:
    """All strings in a nested value."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


def test_before_the_cluster_layer_it_says_so() -> None:
    stand("lab", images=None)
    with pytest.raises(pulumi.RunError, match="no images have been pushed"):
        run_program("platform", "lab", Recorder())
    assert CloudOutputs.load(SitePaths("lab")) is not None
