"""Images of a fresh cloud: downloaded and verified here, before the cloud's Pulumi program uploads them."""

from __future__ import annotations

import shutil

from strata.errors import UserError
from strata.installers.kolla.downloads import downloaded_file
from strata.models.compute import Image
from strata.progress import Progress
from strata.provider.base import CHECKSUM
from strata.site.context import SiteContext
from strata.stacks.pulumi_state import project_name, read_deployment, state_file
from strata.toolchain.release import Unavailable, check_digest, download
from strata.toolchain.resolve import mirror_directory

ALGORITHMS = {64: "sha256", 128: "sha512"}
"""By the number of digits."""


def ensure_files(context: SiteContext, progress: Progress) -> int:
    """Downloads the images that glance does not have yet; returns how many.

    Raises:
        UserError: one is not available, or has another digest than site.yaml.
    """
    cloud = context.site.cloud
    images = [image for image in cloud.images if image.url is not None] if cloud is not None else []
    absent = [image for image in images if not downloaded_file(image).exists()]
    uploaded = _uploaded(context) if absent else set()
    missing = [image for image in absent if image.checksum not in uploaded]
    for image in missing:
        _download(image, progress)
    return len(missing)


def _uploaded(context: SiteContext) -> set[str]:
    """Digests of the images in the stack's state."""
    file = state_file(context.paths.pulumi, project_name("cloud"), context.site.name)
    resources = read_deployment(file).get("resources") or () if file.exists() else ()
    properties = ((r.get("inputs") or {}).get("properties") for r in resources if r.get("id"))
    return {str(entry[CHECKSUM]) for entry in properties if isinstance(entry, dict) and CHECKSUM in entry}


def _download(image: Image, progress: Progress) -> None:
    url, checksum = str(image.url), str(image.checksum)
    digest, name = f"{ALGORITHMS[len(checksum)]}:{checksum}", url.rpartition("/")[2]
    mirror = mirror_directory()
    kept = None if mirror is None else mirror / "images" / name
    target = downloaded_file(image)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".partial-{target.name}")
    try:
        if kept is not None and kept.is_file():
            progress.update(f"copying {name} from the mirror")
            if problem := check_digest(kept, digest, "site.yaml"):
                raise Unavailable(f"{kept.parent} is refused: {problem}")
            shutil.copyfile(kept, partial)
        else:
            downloaded = download(url, digest, lambda text: progress.update(f"{name}: {text}"), _nothing, "site.yaml")
            shutil.move(downloaded, partial)
    except (Unavailable, OSError) as reason:
        place = "<mirror>/images/, and set STRATA_MIRROR=<mirror>" if mirror is None else f"{mirror}/images/"
        raise UserError(
            f"image {image.name} cannot be downloaded: {reason}",
            fix=f"correct url and checksum in site.yaml, or put {name} into {place}",
            see="an-image-cannot-be-downloaded",
        ) from None
    partial.rename(target)


def _nothing() -> None:
    """A download here is not stopped by others."""
