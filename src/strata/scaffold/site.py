"""A new site from another one."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from strata.errors import UserError
from strata.models.files import site_files
from strata.models.site import Site
from strata.models.types import DnsLabel
from strata.site.paths import SitePaths
from strata.site_file.document import read_document
from strata.site_file.inventories import SITE_FILE
from strata.site_file.loader import load_site
from strata.site_file.renumber import IPNetwork, free_network, renumber


def new_site(
    name: str, like: Path, directory: Path, own: Iterable[IPNetwork] = (), taken: Iterable[IPNetwork] = ()
) -> Path:
    """Copies a site with its name and domain replaced; comments and layout stay.

    A lab gets networks of its own, so that both can run on one machine; addresses in them move along.

    Args:
        name: the new site's name.
        like: the site.yaml to start from.
        directory: where the new site's directory goes.
        own: networks that the old one has on this machine; the new one gets others.
        taken: networks that the new one must not use; those of the old one are understood.

    Returns:
        The new site.yaml.

    Raises:
        SiteError: the old site has errors.
        UserError: the name is not a host name, the site is there already, or no network is free.
    """
    try:
        TypeAdapter(DnsLabel).validate_python(name)
    except ValidationError as error:
        why = error.errors()[0]["msg"]
        raise UserError(f"{name!r}: {why}", fix="for instance my-site", see="a-new-site-cannot-be-written") from None
    old, document = load_site(like), read_document(like)
    target = directory / name
    if target.exists():
        raise UserError(f"site folder {target} exists already", fix="another name, or remove it")
    if SitePaths(name).root.exists():
        raise UserError(
            f"{SitePaths(name).root} exists already: a site called {name} is or was up on this machine",
            fix=f"another name, or remove that one with `strata destroy {name}`",
        )
    lines = like.read_text(encoding="utf-8-sig").splitlines(keepends=True)
    domain = (
        name + "." + old.domain.partition(".")[2] if "." in old.domain.partition(".")[2] else f"{name}.{old.domain}"
    )
    for key, before, after in (("name", old.name, name), ("domain", old.domain, domain)):
        place, _ = document.locate((key,))
        pattern = rf"(\b{key}[\"']?\s*:\s*[\"']?){re.escape(before)}(?![\w.-])"
        lines[place.line - 1] = re.sub(pattern, rf"\g<1>{after}", lines[place.line - 1], count=1)
    text = renumber("".join(lines), _moves(old, list(own), taken))
    try:
        target.mkdir(parents=True)
        file = target / SITE_FILE
        file.write_text(text)
        _editor_line(file, like)
        for name_beside in site_files(old):
            if not Path(name_beside).is_absolute():
                (target / name_beside).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(like.parent / name_beside, target / name_beside)
    except OSError as error:
        raise UserError(
            f"{target}: {error.strerror}", fix="a directory that you may write to", see="a-new-site-cannot-be-written"
        ) from None
    load_site(file)
    return file


def _moves(old: Site, own: list[IPNetwork], taken: Iterable[IPNetwork]) -> dict[IPNetwork, IPNetwork]:
    """A free network for each that the site has on this machine."""
    inside: list[IPNetwork] = [old.cluster.pod_network, old.cluster.service_network] if old.cluster else []
    moves: dict[IPNetwork, IPNetwork] = {}
    used = [*taken, *own, *inside]
    for network in own:
        moves[network] = free_network(network, [*used, *moves.values()])
    return moves


def _editor_line(file: Path, like: Path) -> None:
    """Keeps the path of the schema right in the first line, which is relative to the file."""
    text = file.read_text()
    match = re.match(r"# yaml-language-server: \$schema=(\S+)", text)
    if match is None or "://" in match[1]:
        return
    schema = os.path.relpath((like.parent / match[1]).resolve(), file.parent.resolve())
    file.write_text(text.replace(match[1], schema, 1))
