"""The real podman and skopeo, and the client of ours, against an image registry that stumbles."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from strata.errors import UserError
from strata.images import oci_layout, registry_client
from strata.images import push as push_module
from strata.images.build import LOCAL_PREFIX, ImageSource
from strata.images.oci_layout import ensure_oci_layout
from strata.images.push import push
from strata.images.registry_client import RegistryClient
from strata.inventory.port_numbers import REGISTRY_PUSH
from strata.progress import Silent
from strata.site.secrets import pki
from strata.troubleshooting import link_for

from .faulty import Answer, Fault, Server, running

NAME = "registry.lab.strata.test"
PASSWORD = "the operator's"
ENTRY = "docs/troubleshooting.md#the-registry-does-not-respond"


class Recorder:
    """Progress that keeps what it was reported."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def update(self, text: str) -> None:
        self.lines.append(text)


@dataclass
class Registry:
    """A registry with one thing to its credit: it believes nothing that it did not get whole."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def answer(self, method: str, path: str, body: bytes) -> Answer:
        """As the distribution's specification states."""
        route, _, query = path.partition("?")
        if route == "/v2/":
            return Answer()
        if match := re.fullmatch(r"/v2/(.+)/blobs/uploads/(\d*)", route):
            return self._upload(method, match[1], match[2], query, body)
        if match := re.fullmatch(r"/v2/(.+)/blobs/(sha256:\w+)", route):
            blob = self.blobs.get(match[2])
            return Answer(404) if blob is None else Answer(200, blob, {"Docker-Content-Digest": match[2]})
        if match := re.fullmatch(r"/v2/(.+)/manifests/(.+)", route):
            return self._manifest(method, match[2], body)
        return Answer(404)

    def _upload(self, method: str, name: str, number: str, query: str, body: bytes) -> Answer:
        if method == "POST":
            number = str(next(self.numbers))
            self.uploads[number] = b""
        self.uploads[number] += body
        place = {
            "Location": f"/v2/{name}/blobs/uploads/{number}",
            "Range": f"0-{max(0, len(self.uploads[number]) - 1)}",
        }
        if method != "PUT":
            return Answer(202, b"", place)
        content = self.uploads.pop(number)
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        if digest not in query.replace("%3A", ":"):
            return Answer(400)
        self.blobs[digest] = content
        return Answer(201, b"", {"Docker-Content-Digest": digest, "Location": f"/v2/{name}/blobs/{digest}"})

    def _manifest(self, method: str, tag: str, body: bytes) -> Answer:
        if method == "PUT":
            digest = "sha256:" + hashlib.sha256(body).hexdigest()
            self.manifests[tag] = self.manifests[digest] = (digest, body)
            return Answer(201, b"", {"Docker-Content-Digest": digest})
        if tag not in self.manifests:
            return Answer(404)
        digest, content = self.manifests[tag]
        return Answer(200, content, {"Docker-Content-Digest": digest, "Content-Type": "application/json"})


@dataclass(frozen=True)
class Site:
    """A registry that runs, and what is needed to use it."""

    server: Server
    registry: Registry
    address: str
    certificates: Path

    def client(self, progress: Recorder | None = None) -> RegistryClient:
        """As Strata has it."""
        return RegistryClient(self.address, NAME, self.certificates / "ca.crt", PASSWORD, progress)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """The port is the registry's own; each process of the tests has an address for itself."""
    number = os.getpid() % (250 * 250)
    address = f"127.77.{number // 250 + 1}.{number % 250 + 1}"
    authority, key = pki.create_authority("lab")
    certificate = pki.issue(authority, key, NAME, [NAME], [address])
    pem = tmp_path / "server.pem"
    pem.write_text(certificate.certificate + certificate.private_key)
    certificates = tmp_path / "certificates"
    certificates.mkdir()
    (certificates / "ca.crt").write_text(authority)
    registry = Registry()
    with running(Server(registry.answer), (address, REGISTRY_PUSH), pem) as server:
        yield Site(server, registry, address, certificates)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image of 2 MiB that nothing can pack, as the cache has it."""
    if any(shutil.which(name) is None for name in ("podman", "skopeo")) or os.geteuid() != 0:
        pytest.skip("podman and skopeo as root is what the lab has")
    directory = tmp_path_factory.mktemp("image")
    (directory / "noise").write_bytes(os.urandom(2 << 20))
    source = ImageSource("strata/noise", "FROM scratch\nCOPY noise /noise\n", {"noise": directory / "noise"})
    content = uuid.uuid4().hex[:24]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STRATA_CACHE_DIR", str(directory / "cache"))
        # what a run that was killed left
        (directory / "cache" / "images" / "pods" / f"{content}.part" / "blobs").mkdir(parents=True)
        layout = ensure_oci_layout(source, content, Silent())
        # as on a machine whose podman has been tidied up
        subprocess.run(["podman", "image", "rm", f"{LOCAL_PREFIX}/noise:{content}"], check=True, capture_output=True)
        patch.setattr(oci_layout, "build", None)
        assert ensure_oci_layout(source, content, Silent()) == layout, "it is built once"
    assert [p.name for p in layout.parent.iterdir() if p.is_dir()] == [layout.name]
    return layout


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two attempts to push."""
    monkeypatch.setattr(push_module, "PAUSES", (0.1, 0.1))


def send(site: Site, image: Path, progress: Recorder | None = None) -> str:
    """Pushes as `strata up` does."""
    with site.client() as client:
        client.write_credentials(site.certificates)
        return push(image, "strata/noise", "1", client, site.certificates, progress or Recorder())


def whole(site: Site, digest: str) -> bool:
    """Whether the registry has the manifest and every blob that it names."""
    _, manifest = site.registry.manifests["1"]
    named = set(re.findall(rb"sha256:\w{64}", manifest))
    return site.registry.manifests["1"][0] == digest and named <= {key.encode() for key in site.registry.blobs}


@pytest.mark.parametrize(
    "fault", [("PATCH /", Fault.RESET), ("POST /", Fault.ERROR), ("PUT /v2/strata/noise/manifests", Fault.ERROR)]
)
def test_push_passes_over_a_stumble(site: Site, image: Path, fault: tuple[str, Fault]) -> None:
    """An error or a broken connection half way: it is sent again, and the image is whole."""
    site.server.faults[fault[0]] = [fault[1]]
    assert whole(site, send(site, image))
    assert not site.server.faults[fault[0]], "the fault did not happen"


def test_push_that_fails_leaves_no_image_and_the_next_one_goes_on(site: Site, image: Path) -> None:
    """The message names registry, image and reason; no tag is there; then all of it is."""
    site.server.always["PUT /v2/strata/noise/manifests"] = Fault.ERROR
    with pytest.raises(UserError, match=rf"registry at {site.address}:5001 did not take strata/noise: .*500") as caught:
        send(site, image)
    assert link_for(caught.value) == ENTRY
    assert caught.value.fix
    with site.client() as client:
        assert client.digest("strata/noise", "1") is None
    sent = sum(line.startswith("PATCH") for line in site.server.asked)
    site.server.always.clear()
    assert whole(site, send(site, image))
    assert sum(line.startswith("PATCH") for line in site.server.asked) == sent, "what was taken is sent again"


def test_push_to_a_registry_that_takes_nothing_ends(site: Site, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """skopeo would wait for ever."""
    monkeypatch.setattr(push_module, "STALLED_SECONDS", 2.0)
    site.server.always["POST /"] = Fault.SILENCE
    progress = Recorder()
    with pytest.raises(UserError, match="did not take strata/noise: nothing moved for 2 s") as caught:
        send(site, image, progress)
    assert link_for(caught.value) == ENTRY
    assert "pushing image strata/noise, 1 s" in progress.lines, "it must be seen that it goes on"


def test_a_machine_without_skopeo_is_reported(site: Site, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one whose checkout is newer than its last `scripts/lab up`."""
    monkeypatch.setenv("PATH", str(image))
    with pytest.raises(UserError, match="skopeo is not installed") as caught:
        send(site, image)
    assert caught.value.fix == "apt-get install skopeo"


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Callable[[float, float], None]:
    """`hasty(timeout, patience)`: less waiting than users have to do."""

    def set_limits(timeout: float, patience: float) -> None:
        monkeypatch.setattr(registry_client, "TIMEOUT", timeout)
        monkeypatch.setattr(registry_client, "PATIENCE", patience)
        monkeypatch.setattr(registry_client, "PAUSE", 0.05)

    return set_limits


@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.RESET, Fault.SHORT, Fault.TRICKLE, Fault.SILENCE])
def test_answer_that_fails_is_asked_for_again(
    site: Site, image: Path, hasty: Callable[[float, float], None], fault: Fault
) -> None:
    """Half an answer is never taken for one: the manifest gets its second tag as it is."""
    hasty(2.0, 60)
    digest = send(site, image)
    site.server.faults["GET /v2/strata/noise/manifests"] = [fault, fault]
    progress = Recorder()
    with site.client(progress) as client:
        assert client.tag("strata/noise", digest, "2")
    assert site.registry.manifests["2"] == site.registry.manifests["1"]
    retries = [line for line in progress.lines if "again for strata/noise:2" in line]
    assert len(retries) == 2, "it must be told what is waited for"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault.ERROR, "500 Internal Server Error"),
        (Fault.RESET, "(reset|closed|IncompleteRead)"),  # or the client reads an early end
        (Fault.SHORT, "IncompleteRead"),
        (Fault.TRICKLE, "no whole answer within 2 s"),
        (Fault.SILENCE, "no whole answer within 2 s"),
    ],
)
def test_registry_that_stays_so_is_reported(
    site: Site, image: Path, hasty: Callable[[float, float], None], fault: Fault, reason: str
) -> None:
    """With its address, the image and what happened, in little more than the time it was given."""
    digest = send(site, image)
    hasty(2.0 if "within 2 s" in reason else 30.0, 1.0)  # a busy machine takes seconds to reset a connection
    site.server.always["GET /v2/strata/noise/manifests"] = fault
    message = rf"registry at {site.address}:5001 does not respond for strata/noise:2: .*{reason}"
    with site.client() as client, pytest.raises(UserError, match=message) as caught:
        client.tag("strata/noise", digest, "2")
    assert link_for(caught.value) == ENTRY
    assert "2" not in site.registry.manifests


def test_tag_without_a_digest_is_not_an_image(site: Site) -> None:
    """As a cache or a proxy in between might answer."""
    site.server.answer = lambda *_: Answer(200)
    with site.client() as client, pytest.raises(UserError, match="answered 200 without a digest to a question for"):
        client.digest("strata/noise", "1")


def test_silent_is_what_is_used_without_progress(site: Site) -> None:
    """Nobody has to watch."""
    with RegistryClient(site.address, NAME, site.certificates / "ca.crt", PASSWORD, Silent()) as client:
        assert client.digest("strata/noise", "1") is None
