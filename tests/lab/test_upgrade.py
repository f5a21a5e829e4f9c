"""A newer release of Strata brings another image of the ML Hub: its users notice nothing, and its data stays.

The newer release is a copy of this one whose ml-hub is another build. `up` of the copy upgrades, `up` of this one goes
back.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import requests

from strata.catalogue.service import SYSTEM_NAMESPACE
from strata.catalogue.site_services import issuer
from strata.site.context import SiteContext
from strata.site.outputs import ImageOutputs
from strata.site.paths import REPOSITORY
from strata.verify.pods import Kubectl
from strata.verify.tokens import client_token
from strata_services.ml_hub.service import AUDIENCE, DATABASE, SERVICE

from .commands import psql, up

if TYPE_CHECKING:
    from testinfra.host import Host

pytestmark = pytest.mark.nightly

RELEASE = "ML_HUB_TEST_RELEASE"
"""Environment variable that only the newer image has."""
EVERY_SECONDS = 0.1
NOT_OF_A_RELEASE = (".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "tests", "docs")


@dataclass
class Visitor:
    """Asks for something repeatedly from outside, and keeps each answer that was none.

    Args:
        ask: one request.
    """

    ask: Callable[[], requests.Response]
    answers: int = 0
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0
    _ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Until `leave`."""
        while not self._ended.wait(EVERY_SECONDS):
            begin = time.monotonic()
            try:
                answer = self.ask()
                if answer.status_code == 200:
                    self.answers += 1
                else:
                    self.failures.append(f"{time.strftime('%H:%M:%S')} {answer.status_code} {answer.text[:200]}")
            except requests.RequestException as error:
                self.failures.append(f"{time.strftime('%H:%M:%S')} {error!r}"[:300])
            self.slowest = max(self.slowest, time.monotonic() - begin)

    def leave(self) -> None:
        """Ends `run` after the request under way."""
        self._ended.set()


@dataclass(frozen=True)
class Upgraded:
    """The site after `up` of the newer release.

    Args:
        visitors: who asked all the time; one keeps its connection, one makes another for each request.
        before: the pods' image, and the table of models, before.
        changed: names of the steps of `up` that changed something.
    """

    visitors: tuple[Visitor, ...]
    before: tuple[str, str]
    changed: tuple[str, ...]


def image_of_pods(kubectl: Kubectl) -> str:
    """Reference of the image that all of the hub's ready pods run."""
    selector = "app.kubernetes.io/name=ml-hub,app.kubernetes.io/component=api"
    pods = json.loads(kubectl("get", "pods", "-n", SYSTEM_NAMESPACE, "-l", selector, "-o", "json"))["items"]
    (image,) = {p["spec"]["containers"][0]["image"] for p in pods if not p["metadata"].get("deletionTimestamp")}
    return str(image)


def table(server: Host) -> str:
    """Number of models, and a digest of all columns; when each was loaded is one of them."""
    return psql(server, DATABASE.name, "select count(*), md5(string_agg(m::text, chr(10) order by id)) from models m")


def token(context: SiteContext, http: requests.Session) -> str:
    """A token of the site's issuer."""
    own = issuer(context.site)
    if own is None:
        pytest.skip(f"site {context.site.name} has no issuer of its own")
    return client_token(http, own, context.secrets.get(own.client_secret), AUDIENCE.name)


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this release with another build of the ML Hub."""
    copy = tmp_path_factory.mktemp("release") / "strata"
    shutil.copytree(REPOSITORY, copy, ignore=shutil.ignore_patterns(*NOT_OF_A_RELEASE))
    containerfile = copy / "services" / "ml-hub" / "Containerfile"
    containerfile.write_text(f"{containerfile.read_text()}ENV {RELEASE}=newer\n")
    return copy


@pytest.fixture(scope="module")
def upgraded(
    context: SiteContext,
    newer: Path,
    kubectl: Kubectl,
    site_host: Callable[[str], Host],
    http: requests.Session,
) -> Iterator[Upgraded]:
    """The site as the newer release brings it up; afterwards as this one does."""
    hub = SERVICE.of(context.site)
    if hub is None:
        pytest.skip(f"site {context.site.name} has no platform.services.ml_hub")
    url = f"https://{hub.hostname}.{context.site.domain}"
    headers = {"Authorization": f"Bearer {token(context, http)}"}

    def list_models() -> requests.Response:
        return http.get(f"{url}/v3/ml-hub/models", params={"limit": 3}, headers=headers, timeout=30)

    def ready_by_itself() -> requests.Response:
        return http.get(f"{url}/readyz", headers={"Connection": "close"}, timeout=30)

    before = (image_of_pods(kubectl), table(site_host("services-1")))
    visitors = (Visitor(list_models), Visitor(ready_by_itself))
    threads = [threading.Thread(target=visitor.run) for visitor in visitors]
    for thread in threads:
        thread.start()
    try:
        report = up(context.site_file, environment={"PYTHONPATH": str(newer / "src")})
        changed = tuple(step["name"] for step in report["steps"] if step["changed"])
        yield Upgraded(visitors, before, changed)
    finally:
        # going back is a rollout too: they stay to the end
        up(context.site_file)
        for visitor in visitors:
            visitor.leave()
        for thread in threads:
            thread.join()
    failures = [failure for visitor in visitors for failure in visitor.failures]
    assert failures == [], "requests failed while it went back"
    assert image_of_pods(kubectl) == before[0]
    assert table(site_host("services-1")) == before[1]


def test_the_pods_run_the_newer_image(upgraded: Upgraded, context: SiteContext, kubectl: Kubectl) -> None:
    assert image_of_pods(kubectl) != upgraded.before[0]
    outputs = ImageOutputs.load(context.paths)
    assert outputs is not None
    assert image_of_pods(kubectl) == str(outputs.images["ml-hub"])
    said = kubectl("exec", "-n", SYSTEM_NAMESPACE, "deployment/ml-hub", "-c", "api", "--", "env")
    assert f"{RELEASE}=newer" in said


def test_nothing_else_was_touched(upgraded: Upgraded) -> None:
    assert set(upgraded.changed) <= {"pod images", "cluster", "platform"}
    assert {"pod images", "platform"} <= set(upgraded.changed)


def test_the_catalogue_is_the_same(upgraded: Upgraded, site_host: Callable[[str], Host]) -> None:
    rows = upgraded.before[1].partition("|")[0]
    assert int(rows) > 0
    assert table(site_host("services-1")) == upgraded.before[1]


def test_every_request_was_answered(upgraded: Upgraded) -> None:
    for visitor in upgraded.visitors:
        assert visitor.failures == []
        assert visitor.answers > 50
        assert visitor.slowest < 5
