"""helm on a site's cluster."""

from __future__ import annotations

import json
from typing import Any

from strata.access.commands import ANSWER_SECONDS, answer
from strata.access.helm_storage import StoredRelease, listing, stored_releases
from strata.access.kubectl import kubectl
from strata.site.context import SiteContext


def helm(context: SiteContext, *arguments: str, seconds: float = ANSWER_SECONDS) -> str:
    """What helm prints. Errors as of `answer`."""
    return answer(context, "helm", *arguments, seconds=seconds)


def helm_releases(context: SiteContext, *options: str, seconds: float = ANSWER_SECONDS) -> list[dict[str, Any]]:
    """The releases of all namespaces; with `--all` those that are not deployed too. Errors as of `answer`."""
    releases: list[dict[str, Any]] | None = json.loads(
        helm(context, "list", "--all-namespaces", *options, "--output", "json", seconds=seconds) or "[]"
    )
    return releases or []


def all_releases(context: SiteContext) -> dict[tuple[str, str], StoredRelease]:
    """The last revision of each release with its objects, by namespace and name. Errors as of `answer`."""
    return stored_releases(kubectl(context, *listing()))
