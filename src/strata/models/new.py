"""A new site from another one."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from strata.errors import UserError
from strata.models.document import read_document
from strata.models.find import SITE_FILE
from strata.models.loader import load_site
from strata.models.types import DnsLabel


def new_site(name: str, like: Path, directory: Path) -> Path:
    """Copies a site with its name and domain replaced; comments and layout stay.

    Args:
        name: the new site's name.
        like: the site.yaml to start from.
        directory: where the new site's directory goes.

    Returns:
        The new site.yaml.

    Raises:
        SiteError: the old site has mistakes.
        UserError: the name is no host name, or the site is there already.
    """
    try:
        TypeAdapter(DnsLabel).validate_python(name)
    except ValidationError as error:
        why = error.errors()[0]["msg"]
        raise UserError(f"{name!r}: {why}", fix="for instance my-site", see="a-new-site-cannot-be-written") from None
    old, document = load_site(like), read_document(like)
    target = directory / name
    if target.exists():
        raise UserError(f"{target} exists already", fix="another name, or remove it")
    lines = like.read_text(encoding="utf-8-sig").splitlines(keepends=True)
    domain = (
        name + "." + old.domain.partition(".")[2] if "." in old.domain.partition(".")[2] else f"{name}.{old.domain}"
    )
    for key, before, after in (("name", old.name, name), ("domain", old.domain, domain)):
        place, _ = document.locate((key,))
        pattern = rf"(\b{key}[\"']?\s*:\s*[\"']?){re.escape(before)}(?![\w.-])"
        lines[place.line - 1] = re.sub(pattern, rf"\g<1>{after}", lines[place.line - 1], count=1)
    try:
        target.mkdir(parents=True)
        file = target / SITE_FILE
        file.write_text("".join(lines))
        _editor_line(file, like)
        services = old.platform.services
        beside = [services.ml_hub.catalogue.file] if services.ml_hub else []
        beside += [services.external_issuer.ca_file] if services.external_issuer else []
        for name_beside in beside:
            if name_beside is not None and not Path(name_beside).is_absolute():
                (target / name_beside).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(like.parent / name_beside, target / name_beside)
    except OSError as error:
        raise UserError(
            f"{target}: {error.strerror}", fix="a directory that you may write to", see="a-new-site-cannot-be-written"
        ) from None
    load_site(file)
    return file


def _editor_line(file: Path, like: Path) -> None:
    """Keeps the path of the schema right in the first line, which is relative to the file."""
    text = file.read_text()
    match = re.match(r"# yaml-language-server: \$schema=(\S+)", text)
    if match is None or "://" in match[1]:
        return
    schema = os.path.relpath((like.parent / match[1]).resolve(), file.parent.resolve())
    file.write_text(text.replace(match[1], schema, 1))
