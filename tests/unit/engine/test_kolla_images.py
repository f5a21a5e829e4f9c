"""Images that a fresh cloud gets: from a server, from the mirror, once."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.errors import UserError
from strata.installers.kolla.downloads import upload
from strata.installers.kolla.images import ensure_files
from strata.models.compute import Image
from strata.progress import Silent
from strata.provider.base import CHECKSUM
from strata.site.context import SiteContext
from strata.site_file.inventories import find_site
from strata.stacks.pulumi_state import project_name, state_file
from strata.troubleshooting import link_for

CONTENT = b"QFI a disk"
CHECKSUM_OF_CONTENT = hashlib.sha512(CONTENT).hexdigest()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """URL and folder of a web server."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as http_server:
        threading.Thread(target=http_server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http_server.server_port}", folder
        http_server.shutdown()


@pytest.fixture
def context(server: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteContext:
    """tacc with an image of that server."""
    monkeypatch.setenv("STRATA_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("STRATA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("STRATA_MIRROR", raising=False)
    loaded = SiteContext.load(find_site("tacc"))
    assert loaded.site.cloud is not None
    # the model accepts https alone
    image = loaded.site.cloud.images[0].model_copy(
        update={"url": f"{server[0]}/debian.qcow2", "checksum": CHECKSUM_OF_CONTENT}
    )
    cloud = loaded.site.cloud.model_copy(update={"images": (image,)})
    return SiteContext(loaded.site.model_copy(update={"cloud": cloud}), loaded.site_file, loaded.paths)


def image_of(context: SiteContext) -> Image:
    assert context.site.cloud is not None
    return context.site.cloud.images[0]


def test_an_image_is_downloaded_once(context: SiteContext, server: tuple[str, Path]) -> None:
    (server[1] / "debian.qcow2").write_bytes(CONTENT)
    assert ensure_files(context, Silent()) == 1
    uploaded = upload(image_of(context))
    assert uploaded is not None
    assert Path(uploaded.file).read_bytes() == CONTENT
    assert ensure_files(context, Silent()) == 0


def test_what_glance_has_is_not_downloaded_again(context: SiteContext) -> None:
    """As in the stack's state, whose cloud may be managed from another machine."""
    file = state_file(context.paths.pulumi, project_name("cloud"), context.site.name)
    file.parent.mkdir(parents=True)
    resource = {"urn": "u", "id": "1", "inputs": {"properties": {CHECKSUM: CHECKSUM_OF_CONTENT}}}
    file.write_text(json.dumps({"checkpoint": {"latest": {"resources": [resource]}}}))
    assert ensure_files(context, Silent()) == 0


@pytest.mark.parametrize(("served", "reason"), [(None, "404"), (b"another", "site.yaml pins")])
def test_an_image_that_is_not_available_is_named(
    context: SiteContext,
    server: tuple[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    served: bytes | None,
    reason: str,
) -> None:
    if served is not None:
        (server[1] / "debian.qcow2").write_bytes(served)
    with pytest.raises(UserError) as raised:
        ensure_files(context, Silent())
    assert raised.value.message.startswith("image debian-12 cannot be downloaded: ")
    assert reason in raised.value.message
    assert "put debian.qcow2 into <mirror>/images/" in str(raised.value.fix)
    assert link_for(raised.value) == "docs/troubleshooting.md#an-image-cannot-be-downloaded"
    mirror = tmp_path / "mirror" / "images" / "debian.qcow2"
    mirror.parent.mkdir(parents=True)
    mirror.write_bytes(CONTENT)
    monkeypatch.setenv("STRATA_MIRROR", str(tmp_path / "mirror"))
    assert ensure_files(context, Silent()) == 1
