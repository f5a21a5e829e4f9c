"""Pictures of the report's page for the docs: `python -m strata_bench.screenshot [DIRECTORY]`.

The page is the lab's, all of it up, from the site file alone: the same on each machine, and no site has to run.
"""

from __future__ import annotations

import hashlib
import os
import struct
import sys
import tempfile
import zlib
from pathlib import Path

from strata.drift_model import DriftReport
from strata.models.gpu_nodes import gpu_nodes
from strata.observe import CloudFacts, ClusterFacts, HostFacts, Observation, PlatformFacts, PodFacts, ServerFacts
from strata.observe.facts import ServiceFacts
from strata.observe.hosts import host_roles
from strata.platform.releases import releases
from strata.report.build import build_report
from strata.report.page import TEMPLATES, render_page
from strata.roles import KUBERNETES_ROLES, units_of
from strata.site.context import SiteContext
from strata.site.host_list import running_roles
from strata.site.outputs import CloudOutputs, InstanceOutput
from strata.site.paths import REPOSITORY
from strata.site_file.inventories import find_site
from strata_bench.browser import browser

SITE = "lab"
WIDTH, HEIGHT = 1280, 1180
"""Of the picture, in pixels: layers, hosts and accelerators."""
HEADER = b"\x89PNG\r\n\x1a\n"
KEYWORD = b"strata-page\0"
"""Begins the text in a picture that identifies the page it shows."""
CARD = "0000:10:00.0"
"""PCI address of the GPU in the lab's GPU instance."""


def page_digest() -> str:
    """SHA-256 of the page's template and style, which the pictures record."""
    content = b"".join((TEMPLATES / name).read_bytes() for name in ("report.html.j2", "report.css"))
    return hashlib.sha256(content).hexdigest()


def pictured_digest(file: Path) -> str | None:
    """The digest that a picture records; None if it has none."""
    data, position = file.read_bytes(), len(HEADER)
    while position < len(data):
        (length,) = struct.unpack(">I", data[position : position + 4])
        kind, content = data[position + 4 : position + 8], data[position + 8 : position + 8 + length]
        if kind == b"tEXt" and content.startswith(KEYWORD):
            return content.removeprefix(KEYWORD).decode()
        position += 12 + length
    return None


def record_digest(file: Path) -> None:
    """Adds the page's digest to a picture, as a PNG chunk after its header."""
    data, content = file.read_bytes(), KEYWORD + page_digest().encode()
    end = len(HEADER) + 25  # IHDR: 4 bytes of length, 4 of type, 13 of content, 4 of checksum
    chunk = struct.pack(">I", len(content)) + b"tEXt" + content + struct.pack(">I", zlib.crc32(b"tEXt" + content))
    file.write_bytes(data[:end] + chunk + data[end:])


def all_up(context: SiteContext) -> Observation:
    """What would be observed of the lab when all of it is up, and a pod has its GPU."""
    site = context.site
    assert site.cloud is not None
    roles = host_roles(context)
    cards = {name: dict(held) for name, held in gpu_nodes(site).items()}
    places = {i.name: "compute-gpu-1" if i.name in cards else "compute-1" for i in site.cloud.instances}
    pod = PodFacts(uid="1", namespace="research", name="training", node=next(iter(cards)), ready=True)
    resources = {n: {site.accelerators[k].resource: c for k, c in held.items()} for n, held in cards.items()}
    return Observation(
        cloud=CloudFacts(
            servers={n: ServerFacts(id=n, status="ACTIVE", hypervisor=place) for n, place in places.items()},
            hypervisors=dict.fromkeys((h.name for h in site.cloud.hypervisors), "up"),
            flavors=frozenset(flavor.name for flavor in site.cloud.flavors),
        ),
        hosts={
            name: HostFacts(
                units=dict.fromkeys(units_of(running_roles(site, own)), "active"),
                devices={CARD: ("10de", "1db4")} if name in cards else {},
                assigned={CARD: pod.uid} if name in cards else {},
            )
            for name, own in roles.items()
        },
        cluster=ClusterFacts(
            nodes={name: "Ready" for name, own in roles.items() if set(KUBERNETES_ROLES) & set(own)},
            cards=resources,
            pods=(pod.model_copy(update={"devices": resources[pod.node or ""]}),),
        ),
        platform=PlatformFacts(releases={release.key: "deployed" for release in releases(site)}),
        services=ServiceFacts(),
        seconds=1.0,
    )


def page() -> str:
    """The page of the lab as `all_up` has it; a state directory of its own must be set."""
    context = SiteContext.load(find_site(SITE))
    assert context.site.cloud is not None
    context.paths.create()
    instances = {
        i.name: InstanceOutput(id=i.name, name=i.name, address=f"10.77.0.{n}", flavor=i.flavor, roles=tuple(i.roles))
        for n, i in enumerate(context.site.cloud.instances, 11)
    }
    CloudOutputs(instances=instances, networks={}).save(context.paths)
    return render_page(build_report(context, observation=all_up(context), drift=DriftReport()))


def screenshots(directory: Path) -> list[Path]:
    """Writes report-light.png and report-dark.png.

    Raises:
        UserError: there is no chromium.
    """
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    with tempfile.TemporaryDirectory() as temporary, browser() as window:
        os.environ["STRATA_STATE_DIR"] = temporary
        file = Path(temporary) / "report.html"
        file.write_text(page())
        for name in ("light", "dark"):
            window.open(file, width=WIDTH, height=HEIGHT, dark=name == "dark")
            written.append(directory / f"report-{name}.png")
            window.screenshot(written[-1], whole=False)
            record_digest(written[-1])
    return written


def main() -> None:
    """Entry point."""
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else REPOSITORY / "docs" / "images"
    for file in screenshots(directory):
        print(f"{file} ({file.stat().st_size / 1024:.0f} KiB)")


if __name__ == "__main__":
    main()
