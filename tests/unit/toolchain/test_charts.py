"""Charts of other projects: fetched with their digest checked, else substituted."""

from __future__ import annotations

import hashlib
import http.server
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from strata.errors import UserError
from strata.progress import Silent
from strata.toolchain import charts
from strata.toolchain.charts import chart_directory, ensure_charts, report
from strata.toolchain.versions import Versions

VERSION = "1.2.3"
WRONG = "sha256:" + "0" * 64


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Logs nothing."""

    def log_message(self, *_: object) -> None:
        """Drops it."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's chart, packed by the real helm, in a directory with the index of a repository."""
    root = tmp_path_factory.mktemp("project")
    source, served = root / "proxy", root / "served"
    served.mkdir()
    source.mkdir()
    (source / "Chart.yaml").write_text(f"{{apiVersion: v2, name: proxy, version: {VERSION}, description: real}}\n")
    helm = str(Path(sys.executable).with_name("helm"))
    subprocess.run([helm, "package", str(source), "--destination", str(served)], check=True, capture_output=True)
    subprocess.run([helm, "repo", "index", str(served)], check=True, capture_output=True)
    return served / f"proxy-{VERSION}.tgz"


@pytest.fixture
def repository(archive: Path) -> Iterator[str]:
    """URL of a chart repository on the loopback interface."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(archive.parent))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def substitutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache and substitutes of its own."""
    substitute = tmp_path / "substitutes" / "proxy"
    substitute.mkdir(parents=True)
    (substitute / "Chart.yaml").write_text(f"{{apiVersion: v2, name: proxy, version: {VERSION}, description: ours}}\n")
    monkeypatch.setenv("STRATA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("STRATA_MIRROR", raising=False)
    monkeypatch.setattr(charts, "SUBSTITUTES", tmp_path / "substitutes")
    return tmp_path / "substitutes"


def pinned(repository: str, digest: str | None) -> Versions:
    chart = {"repository": repository, "version": VERSION, "digest": digest}
    return Versions.model_validate(
        {"packages": {}, "openstack": "2026.1", "debian": {}, "components": {}, "charts": {"proxy": chart}}
    )


def digest_of(archive: Path) -> str:
    return "sha256:" + hashlib.sha256(archive.read_bytes()).hexdigest()


def description(versions: Versions) -> str:
    directory = chart_directory("proxy", versions, substitutes=True)
    assert directory is not None
    return str(yaml.safe_load((directory / "Chart.yaml").read_text())["description"])


def test_chart_comes_from_its_project_once(repository: str, archive: Path) -> None:
    versions = pinned(repository, digest_of(archive))
    assert ensure_charts(Silent(), ["proxy"], versions=versions, substitutes=True) == ["proxy"]
    assert description(versions) == "real"
    assert [(c.source, c.note) for c in report(versions)] == [("release", "")]
    assert ensure_charts(Silent(), ["proxy"], versions=versions, substitutes=True) == []


@pytest.mark.parametrize(
    ("digest", "reason"), [(WRONG, "versions.yaml pins " + WRONG.partition(":")[2]), (None, "no digest")]
)
def test_chart_that_cannot_be_checked_is_substituted(repository: str, digest: str | None, reason: str) -> None:
    versions = pinned(repository, digest)
    assert ensure_charts(Silent(), ["proxy"], versions=versions, substitutes=True) == []
    assert description(versions) == "ours"
    (chart,) = report(versions)
    assert chart.source == "substitute"
    assert reason in chart.note


def test_unreachable_repository_is_substituted(archive: Path) -> None:
    versions = pinned("http://127.0.0.1:1", digest_of(archive))
    assert ensure_charts(Silent(), ["proxy"], versions=versions, substitutes=True) == []
    assert description(versions) == "ours"
    assert "http://127.0.0.1:1" in report(versions)[0].note


def test_without_a_substitute_the_reason_is_an_error(archive: Path, substitutes: Path) -> None:
    shutil.rmtree(substitutes / "proxy")
    with pytest.raises(UserError, match=r"chart proxy 1\.2\.3 is not available: http://127\.0\.0\.1:1"):
        ensure_charts(Silent(), ["proxy"], versions=pinned("http://127.0.0.1:1", digest_of(archive)), substitutes=True)


def test_a_site_without_substitutes_gets_the_place_of_each_chart(archive: Path, tmp_path: Path) -> None:
    """A real site does not get another chart than it asked for; every missing one is named at once."""
    base = pinned("http://127.0.0.1:1", digest_of(archive))
    other = base.charts["proxy"].model_copy(update={"repository": "oci://127.0.0.1:1/charts"})
    versions = base.model_copy(update={"charts": {**base.charts, "queue": other}})
    with pytest.raises(UserError, match=r"chart proxy 1\.2\.3 is not available: (.|\n)*chart queue") as refused:
        ensure_charts(Silent(), ["proxy", "queue"], versions=versions, substitutes=False)
    fix = str(refused.value.fix)
    assert "`helm pull proxy --repo http://127.0.0.1:1 --version 1.2.3`" in fix
    assert "`helm pull oci://127.0.0.1:1/charts/queue --version 1.2.3`" in fix
    assert "into <mirror>/charts/, and set STRATA_MIRROR=<mirror>" in fix
    assert "allow_substitutes" not in fix, "of the two, one has no substitute"
    assert chart_directory("proxy", versions, substitutes=False) is None
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    with pytest.raises(UserError) as refused:
        ensure_charts(Silent(), ["proxy"], mirror, versions, substitutes=False)
    assert f"put the archive into {mirror}/charts/; to rehearse" in str(refused.value.fix)
    assert "set allow_substitutes: true in site.yaml" in str(refused.value.fix)


def test_mirror_is_asked_first(archive: Path, tmp_path: Path) -> None:
    versions = pinned("http://127.0.0.1:1", digest_of(archive))
    mirror = tmp_path / "mirror"
    (mirror / "charts").mkdir(parents=True)
    shutil.copy(archive, mirror / "charts")
    assert ensure_charts(Silent(), ["proxy"], mirror, versions, substitutes=True) == ["proxy"]
    assert [(c.source, description(versions)) for c in report(versions)] == [("mirror", "real")]


def test_wrong_file_in_the_mirror_is_an_error(archive: Path, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    (mirror / "charts").mkdir(parents=True)
    shutil.copy(archive, mirror / "charts")
    with pytest.raises(UserError, match="is refused"):
        ensure_charts(Silent(), ["proxy"], mirror, pinned("http://127.0.0.1:1", WRONG), substitutes=True)


def test_other_schemes_are_refused() -> None:
    with pytest.raises(ValueError, match="repository"):
        pinned("http://charts.example.org", WRONG)


def test_mirrored_chart_without_a_pinned_digest_is_an_error(archive: Path, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    (mirror / "charts").mkdir(parents=True)
    shutil.copy(archive, mirror / "charts")
    versions = pinned("http://127.0.0.1:1", None)
    with pytest.raises(UserError, match=r"versions\.yaml pins no digest for chart proxy") as refused:
        ensure_charts(Silent(), ["proxy"], mirror, versions, substitutes=True)
    assert "charts.proxy.digest" in (refused.value.fix or "")
    assert report(versions)[0].source == "substitute"


def test_charts_that_a_site_does_not_use_are_not_fetched(substitutes: Path) -> None:
    shutil.rmtree(substitutes / "proxy")
    assert ensure_charts(Silent(), ["traefik"], versions=pinned("http://127.0.0.1:1", WRONG), substitutes=True) == []
