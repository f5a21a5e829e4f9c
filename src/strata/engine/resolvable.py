"""Names of other hosts in a site file, looked up before anything is created."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from strata.models.key_path import KeyPath
from strata.models.types import is_address
from strata.site.context import SiteContext
from strata.site_file.document import read_document
from strata.site_file.problems import SiteError

AT_ONCE = 8


def check_names(context: SiteContext) -> None:
    """Refuses URLs of the site file whose host has no address, such as an issuer's or a backup store's.

    Only a name server's answer that there is no such name counts: this host may be cut off from it. Names below the
    site's own domain may come with the site, and a lab has a name server of its own.

    Args:
        context: the site.

    Raises:
        SiteError: with every such name.
    """
    site = context.site
    if site.cloud is not None and site.cloud.on_deployment_host:
        return
    document = read_document(context.site_file)
    names = {
        path: name
        for path, name in _names(document.data)
        if not is_address(name) and name != site.domain and not name.endswith(f".{site.domain}")
    }
    with ThreadPoolExecutor(AT_ONCE) as pool:
        unknown = dict(zip(names.values(), pool.map(_is_unknown, names.values()), strict=True))
    fix = "correct it; if this host's name servers do not know it and those of the site do, add it to /etc/hosts here"
    problems = [
        document.problem(path, f"there is no host {name}: its name has no address", fix)
        for path, name in names.items()
        if unknown[name]
    ]
    if problems:
        raise SiteError(problems)


def _names(content: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Key path and host of each URL."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from _names(value, (*path, key))
    elif isinstance(content, list):
        for index, value in enumerate(content):
            yield from _names(value, (*path, index))
    elif isinstance(content, str) and content.startswith(("https://", "http://")):
        name = urlsplit(content).hostname
        if name:
            yield path, name


def _is_unknown(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except socket.gaierror as error:
        return error.errno == socket.EAI_NONAME
    except UnicodeError:  # a label of more than 63 characters
        return True
    return False
